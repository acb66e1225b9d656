"""The reference compiled ahead of time by TorchInductor: what torch.compile makes of it, without a compiler at hand.

Inductor itself cannot run where candidates are judged (it starts compilers), so a process outside compiles the
user's own text and the candidate loads the result.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import CompileError, LaunchError
from kernelwright.home import home
from kernelwright.records import (
    BuildRequest,
    Numerics,
    Signature,
    TensorSpec,
    decode,
    digest_bytes,
)
from kernelwright.targets import ahead
from kernelwright.toolchain.features import features

if TYPE_CHECKING:
    import torch


class InductorLanguage:
    """`source` is a problem's text. Options: `mode` ("default", "max-autotune" or "freezing"), and the problem's
    `signature` and `numerics` as JSON."""

    name = "inductor"
    options = frozenset({"mode", "numerics", "signature"})

    def __init__(self, import_paths: Sequence[str] = ()) -> None:
        self.import_paths = tuple(import_paths)
        """What the user's text needs on sys.path; never taken from a request."""

    def missing(self) -> str | None:
        if not find_spec("torch"):
            return "PyTorch is not installed: pip install torch"
        if not _compiler():
            return "TorchInductor needs a C++ compiler, and g++ was not found (Debian: apt-get install g++)"
        headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
        if not headers.exists():
            return f"TorchInductor needs Python's headers, and {headers.name} was not found (Debian: python3-dev)"
        return None

    def key(self, request: BuildRequest) -> Sequence[str]:
        import torch

        said = subprocess.run([_compiler() or "", "--version"], capture_output=True, text=True).stdout
        ours = digest_bytes(Path(ahead.__file__).read_bytes())
        return (torch.__version__, said.partition("\n")[0], f"{torch.get_num_threads()} threads", ours, *features())

    def build(self, request: BuildRequest, folder: Path) -> Path:
        import torch

        options = dict(request.options)
        mode = options.get("mode", "default")
        if mode not in ahead.MODES:
            raise CompileError(f"Inductor's mode is one of {', '.join(ahead.MODES)}, not {mode!r}")
        try:
            order = ahead.Order(
                source=request.source,
                mode=mode,
                signature=decode(Signature, json.loads(options["signature"])),
                numerics=decode(Numerics, json.loads(options.get("numerics", "{}"))),
                threads=torch.get_num_threads(),
                folder=str(folder),
                import_paths=self.import_paths,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"Inductor was asked for without a proper signature: {error}") from None
        # Its caches are shared: a precompiled header alone saves ten seconds.
        shared = {"TORCHINDUCTOR_CACHE_DIR": str(home() / "inductor")}
        ahead.run(ahead.__name__, order, "Inductor could not compile the reference", shared)
        return folder / ahead.LIBRARY

    def load(self, path: Path, request: BuildRequest) -> "InductorLibrary":
        compiled = decode(ahead.Compiled, json.loads((path.parent / ahead.RECORD).read_text()))
        return InductorLibrary(path, compiled, decode(Signature, json.loads(dict(request.options)["signature"])))


class InductorLibrary:
    """A compiled reference, without weights of its own to speak of: `bind` takes those of a module."""

    def __init__(self, path: Path, compiled: ahead.Compiled, signature: Signature) -> None:
        self.path, self.compiled = path, compiled
        self._signature = signature

    @property
    def follows_weights(self) -> bool:
        """Whether weights may change after compiling. False where Inductor has folded them (mode "freezing")."""
        return self.compiled.follows_weights

    def bind(self, module: "torch.nn.Module") -> Callable[..., Any]:
        """The compiled forward with the module's weights, which it shares: changing them in place changes it.

        Raises LaunchError where the weights are folded and the module's are not those.
        """
        run, weights = self._runner(module)
        if self.compiled.weights and self.compiled.weights != weights_digest(module):
            raise LaunchError("Inductor has folded the weights it was compiled with; it cannot follow other weights")
        call = ahead.calling(run, self._signature, self.compiled.output)
        call.weights = weights  # type: ignore[attr-defined]  # the library does not keep them alive
        return call

    def run(self, module: "torch.nn.Module", leaves: "list[torch.Tensor]") -> "list[torch.Tensor]":
        """One call with the module's weights, from tensor leaves to tensor leaves."""
        run, _ = self._runner(module)
        return run(leaves)

    def __deepcopy__(self, memo: dict[int, Any]) -> "InductorLibrary":
        return self

    def _runner(self, module: "torch.nn.Module") -> Any:
        """A function of its own set of weights, from leaves to leaves, and those weights."""
        from torch._C._aoti import AOTIModelContainerRunnerCpu

        runner = AOTIModelContainerRunnerCpu(str(self.path), 1)
        state = {f"{ahead.PREFIX}{name}": tensor for name, tensor in _named(module).items()}
        wanted = runner.get_constant_names_to_original_fqns()
        # Constants that are no weights (literals in the code, folded weights) keep the values they were compiled with.
        given = {name: state[origin].detach() for name, origin in wanted.items() if origin in state}
        if given:
            runner.update_constant_buffer(given, False, False, True)
        specs = self._signature.tensors

        def run(leaves: "Sequence[torch.Tensor]") -> "list[torch.Tensor]":
            # The library looks at addresses alone: another layout would be read as if it were the compiled one.
            return runner.run([_laid(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)])

        return run, given


def _laid(leaf: "torch.Tensor", spec: TensorSpec) -> "torch.Tensor":
    """The leaf in the layout that was compiled for; torch.compile would compile once more for another."""
    if spec.stride is None:
        return leaf.contiguous()
    if spec.dynamic or leaf.stride() == spec.stride:
        return leaf
    import torch

    return torch.empty_strided(leaf.shape, spec.stride, dtype=leaf.dtype).copy_(leaf)


def weights_digest(module: "torch.nn.Module") -> str:
    """64 hex digits that name the values of the module's parameters and buffers."""
    import torch

    total = hashlib.sha256()
    for name, tensor in sorted(_named(module).items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().data)
    return total.hexdigest()


def _named(module: "torch.nn.Module") -> "dict[str, torch.Tensor]":
    """Parameters and buffers under every name they have, tied ones included."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++"))
