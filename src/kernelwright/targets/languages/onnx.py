"""The reference exported to ONNX, and the runtimes that a graph of it can be given to.

As with Inductor a process outside runs the user's own text: the exporter costs seconds, replaces functions of torch,
and its result is kept.
"""

# onnx and the runtimes are extras, and the check runs without them; without onnx the name means this file.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import CompileError, MissingError
from kernelwright.records import BuildRequest, Numerics, Signature, decode, digest_bytes
from kernelwright.targets import ahead, exporting
from kernelwright.targets.graph_runtimes import RUNTIMES

if TYPE_CHECKING:
    import torch


class OnnxLanguage:
    """`source` is a problem's text. Options: the problem's `signature` and `numerics` as JSON."""

    name = "onnx"
    options = frozenset({"numerics", "signature"})

    def __init__(self, import_paths: Sequence[str] = ()) -> None:
        self.import_paths = tuple(import_paths)
        """What the user's text needs on sys.path; never taken from a request."""

    def missing(self) -> str | None:
        for package in ("torch", "onnx", "onnxscript"):
            if not find_spec(package):
                return f"{package} is not installed: pip install 'kernelwright[onnx]'"
        return None

    def key(self, request: BuildRequest) -> Sequence[str]:
        ours = (digest_bytes(Path(place).read_bytes()) for place in (ahead.__file__, exporting.__file__))
        return (*map(version, ("torch", "onnx", "onnxscript")), *ours)

    def build(self, request: BuildRequest, folder: Path) -> Path:
        options = dict(request.options)
        try:
            order = ahead.Order(
                source=request.source,
                mode=self.name,
                signature=decode(Signature, json.loads(options["signature"])),
                numerics=decode(Numerics, json.loads(options.get("numerics", "{}"))),
                threads=1,
                folder=str(folder),
                import_paths=self.import_paths,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CompileError(f"an export was asked for without a proper signature: {error}") from None
        try:
            ahead.run(exporting.__name__, order, "the reference could not be exported to ONNX", {})
        except CompileError as error:  # nobody's text is wrong: the exporter does not cover it
            raise MissingError(error.message) from error
        return folder / exporting.GRAPH

    def load(self, path: Path, request: BuildRequest) -> "OnnxGraph":
        exported = decode(exporting.Exported, json.loads((path.parent / ahead.RECORD).read_text()))
        return OnnxGraph(path, exported, decode(Signature, json.loads(dict(request.options)["signature"])))


class OnnxGraph:
    """An exported reference without weights: `session` takes those of a module."""

    def __init__(self, path: Path, exported: exporting.Exported, signature: Signature) -> None:
        self.path, self.exported, self._signature = path, exported, signature

    def session(self, module: "torch.nn.Module", runtime: str, threads: int) -> Callable[..., Any]:
        """The reference's call with the weights that the module has now, by the runtime "onnxruntime" or "openvino".

        The runtime folds and packs them: who changes them makes another session. Raises MissingError where the runtime
        does not take the graph.
        """
        return ahead.calling(RUNTIMES[runtime](self._filled(module), threads), self._signature, self.exported.output)

    def __deepcopy__(self, memo: dict[int, Any]) -> "OnnxGraph":
        return self

    def _filled(self, module: "torch.nn.Module") -> bytes:
        """The graph with the module's weights in it."""
        import onnx
        import torch

        graph = onnx.load_model(str(self.path))
        state = {
            **dict(module.named_parameters(remove_duplicate=False)),
            **dict(module.named_buffers(remove_duplicate=False)),
        }
        for tensor in graph.graph.initializer:
            if tensor.name in self.exported.weights:
                value = state[tensor.name.removeprefix(ahead.PREFIX)].detach()
                tensor.raw_data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return graph.SerializeToString()
