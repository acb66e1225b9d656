"""A candidate's text to the module it defines, in this process."""

import builtins
import linecache
import os
import platform
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernelwright import plugins
from kernelwright.errors import CompileError, UnknownNameError
from kernelwright.records import Candidate, Environment
from kernelwright.targets.kernels import SOURCES

if TYPE_CHECKING:
    import torch

_ROOT = "kernelwright_candidate_"
"""Candidates' modules are in sys.modules under this prefix and their digest, where pickle and inspect find them."""
_SETTINGS = ("OMP_", "GOMP_", "KMP_", "MKL_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH")
_lock = threading.RLock()


def load_candidate(
    candidate: Candidate,
    init_args: Sequence[Any],
    *,
    weights: "Mapping[str, torch.Tensor] | None" = None,
    training: bool = False,
    device: str = "cpu",
) -> "torch.nn.Module":
    """The candidate's module: constructed under seed 0, moved to the device, weights loaded (strictly), prepared.

    Whatever the candidate's text raises comes out as it is, its traceback pointing into the text. Raises CompileError
    if the entry class is missing. torch's random state is left as it was.
    """
    import torch

    inside, placed = _surroundings(candidate)
    with inside():
        entry = getattr(modules(candidate)[0], candidate.entry, None)
        if not isinstance(entry, type):
            raise CompileError(f"{candidate.sources[0].path} defines no class {candidate.entry}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = entry(*init_args)
    if not isinstance(module, torch.nn.Module):
        raise CompileError(f"{candidate.entry} of {candidate.sources[0].path} is no torch.nn.Module")
    module = placed(module)
    if device != "cpu":
        module.to(device)
    if weights is not None:
        module.load_state_dict(dict(weights), strict=True)
    module.train(training)
    prepare(module)
    return module


def _surroundings(candidate: Candidate) -> "tuple[Callable[[], Any], Callable[[torch.nn.Module], torch.nn.Module]]":
    """What a candidate's code runs in, and what makes its module one that takes and gives the host's tensors."""
    if candidate.target.rpartition("@")[2] != "metal":
        return nullcontext, lambda module: module
    from kernelwright.metal import native
    from kernelwright.targets import metal_host

    return (nullcontext, metal_host.carried) if native.available() else (metal_host.hosting, metal_host.housed)


def prepare(module: "torch.nn.Module") -> None:
    """Lets a candidate derive from its weights what it needs; to be called after every change of them."""
    import torch

    derive = getattr(module, "prepare", None)
    if callable(derive):
        with torch.no_grad():
            derive()


def modules(candidate: Candidate) -> tuple[ModuleType, ...]:
    """The candidate's Python files as modules, the first one first, executed once per process.

    A file imports another of the candidate by its stem. No other code sees those names, and sys.path is not used.
    """
    with _lock:
        files = {source.path: source.text for source in candidate.sources}
        stems = {path.removesuffix(".py"): path for path in files if path.endswith(".py")}
        order = list(stems)
        if not order or candidate.sources[0].path != stems[order[0]]:
            raise CompileError("the first file of a candidate must be Python")
        namespace = _Namespace(f"{_ROOT}{candidate.digest[:16]}", stems, files)
        return tuple(namespace.module(stem) for stem in order[:1])


class _Namespace:
    """The modules of one candidate, which import each other through an `__import__` of their own."""

    def __init__(self, root: str, stems: dict[str, str], files: dict[str, str]) -> None:
        self.root, self.stems, self.files = root, stems, files
        self.builtins = {**vars(builtins), "__import__": self.import_}

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name in self.stems:
            return self.module(name)
        if level == 1 and name in self.stems:  # from .reference import Model
            return self.module(name)
        return builtins.__import__(name, globals, locals, fromlist, level)

    def module(self, stem: str) -> ModuleType:
        with _lock:
            full = f"{self.root}__{stem}"
            if full in sys.modules:
                return sys.modules[full]
            path, text = self.stems[stem], self.files[self.stems[stem]]
            file = f"<{self.root}>/{path}"
            module = ModuleType(full)
            module.__dict__.update({"__builtins__": self.builtins, "__file__": file, SOURCES: self.files})
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            sys.modules[full] = module
            try:
                exec(compile(text, file, "exec"), module.__dict__)
            except BaseException:
                del sys.modules[full]
                raise
            return module


def is_native(device: str) -> bool:
    """Whether `device` itself runs candidates here, and no host in its place. Raises UnknownNameError."""
    return all(member().native for member in _of(device))


def devices_of(language: str) -> frozenset[str]:
    """The devices on which kernels of `language` run; empty for a language that is no target's."""
    known: list[Any] = list(plugins.members("targets", "Target").values())
    return frozenset(member.device for member in known if member.language == language)


def _of(device: str) -> list[Any]:
    known: dict[str, Any] = dict(plugins.members("targets", "Target"))
    fitting: list[Any] = [member for member in known.values() if member.device == device]
    if not fitting:
        raise UnknownNameError("device", device, {member.device for member in known.values()})
    return fitting


def environment(device: str) -> Environment:
    """Everything of this process and machine that a timing on `device` depends on."""
    import torch

    # Where something is kept changes no time, and torch itself sets such names once its compiler was used.
    steering = (name for name in os.environ if name.startswith(_SETTINGS) and not name.endswith("_DIR"))
    settings = {name: os.environ[name] for name in steering}
    settings["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    return Environment(
        facts=_of(device)[0]().facts(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        toolchain=tuple((name, _version(name)) for name in ("numpy", "ziglang")),
        settings=tuple(sorted(settings.items())),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
