"""Metal kernels: by torch.mps on a Mac, elsewhere by the hosts of kernelwright.metal on the CPU."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernelwright import metal, simt
from kernelwright.errors import CompileError, LaunchError, UnknownNameError
from kernelwright.metal import diagnostics, frontend, native
from kernelwright.metal.library import Kernel
from kernelwright.metal.roofline import roofline
from kernelwright.records import BuildRequest, digest
from kernelwright.targets.broker import broker
from kernelwright.targets.kernels import placing
from kernelwright.targets.metal_text import refuse_files
from kernelwright.toolchain import clang
from kernelwright.toolchain.features import arch, features

_FILE = "kernel.metal"
"""What the compiler's messages call the user's text."""
_CHECK = ("check", "true")
"""The option of a watched build. No text can ask for it: it is not among `options`."""


class MetalLanguage:
    """Metal Shading Language, unmodified; see docs/metal.md. Of files it may include Metal's own and c10/metal's.

    Option `constants`: values of function constants, by number or name.
    """

    name = "metal"
    file = _FILE
    options = frozenset({"constants"})

    def missing(self) -> str | None:
        return None if native.available() else clang.missing()

    def key(self, request: BuildRequest) -> Sequence[str]:
        if native.available():
            return ("mac",)
        return (clang.compiler(), arch(), *features(), _hosts())

    def build(self, request: BuildRequest, folder: Path) -> Path:
        refuse_files(request.source, _FILE)
        options = dict(request.options)
        if native.available():  # torch compiles where the kernel runs
            result = folder / _FILE
            result.write_text(request.source)
            return result
        given = frontend.source(
            request.source, name=_FILE, include_dirs=_headers(request.source), constants=_constants(options)
        )
        unit = frontend.module(given).unit
        if not unit.entries:
            raise CompileError(f"{_FILE} holds no kernel")
        try:
            return simt.carry(unit, folder, check=options.get("check") == "true")
        except CompileError as error:
            raise diagnostics.told(error, given, unit.text) from None

    def load(self, path: Path, request: BuildRequest) -> Any:
        if native.available():
            constants = _constants(dict(request.options))
            return native.compile_shader(path.read_text(), (), constants, name=_FILE, defines=())
        return MetalLibrary(simt.opened(path), request)


def _constants(options: Mapping[str, str]) -> dict[int | str, Any]:
    """JSON has names alone: numbers are told by their digits."""
    found = json.loads(options.get("constants", "{}"))
    return {int(key) if key.isdigit() else key: value for key, value in found.items()}


def _headers(text: str) -> tuple[str, ...]:
    """Where c10/metal lies: torch brings it to every system, and on a Mac finds it by itself."""
    spec = find_spec("torch") if "c10/metal" in text else None
    return (str(Path(spec.origin).parent / "include"),) if spec and spec.origin else ()


@cache
def _hosts() -> str:
    """Names everything of ours that decides what comes out."""
    rooms = [Path(metal.__file__).parent, Path(simt.__file__).parent]
    files = sorted(path for room in rooms for path in room.rglob("*") if path.suffix in _TEXTS)
    return digest("metal hosts", tuple((path.name, path.read_text()) for path in files))


_TEXTS = (".py", ".h", ".hpp", ".cpp")


@dataclass
class Watched:
    """What the launches of watched calls showed."""

    chip: str
    faults: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    launches: int = 0
    estimate_us: float = 0.0
    """At least so long the launches would take on `chip`, one after the other: an estimate, see metal/roofline.py."""


_watched: Watched | None = None


@contextlib.contextmanager
def watching(chip: str) -> Iterator[Watched]:
    """Inside, every hosted launch of this process runs on the build that tells races, bounds and the like."""
    global _watched
    before, _watched = _watched, Watched(chip)
    try:
        yield _watched
    finally:
        _watched = before


class MetalLibrary:
    """Hosted kernels of one source: an attribute for each. The convention is that of torch.mps.compile_shader."""

    def __init__(self, built: simt.Library, request: BuildRequest) -> None:
        self._request = request
        self._kernels = {name: HostedKernel(built, name, self) for name in built.entries}
        self._watched: simt.Library | None = None
        self._caller: dict[str, Any] = {}

    def belongs_to(self, caller: dict[str, Any]) -> None:
        """The globals of the code that holds the text: what is told of a line is told of its author's."""
        self._caller = caller

    def placed(self, messages: Iterable[str]) -> list[str]:
        """The messages with the author's own file and lines."""
        return list(map(placing(self._request, self._caller), messages))

    @property
    def watched(self) -> simt.Library:
        """The same kernels on the watched build, which is asked for when it is needed."""
        if self._watched is None:
            request = BuildRequest("metal", self._request.source, (_CHECK, *self._request.options))
            self._watched = simt.opened(Path(broker().build(request).path))
        return self._watched

    def __getattr__(self, name: str) -> "HostedKernel":
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> "HostedKernel":
        if name not in self._kernels:
            raise UnknownNameError("kernel", name, self._kernels)
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return sorted(self._kernels)

    def __deepcopy__(self, memo: dict[int, Any]) -> "MetalLibrary":
        return self


class HostedKernel(Kernel):
    """One kernel on the CPU. Its launch is over when the call returns."""

    def __init__(self, built: simt.Library, name: str, library: MetalLibrary) -> None:
        entry = built.entries[name]
        super().__init__(simt.Unit("", (entry,)), entry, frontend.Source(""))
        self._plain, self._library = built, library

    def build(self, host: str = "cpu", *, check: bool = False, count: bool = False) -> simt.Library:
        """What is compiled already."""
        if host != "cpu":
            raise LaunchError(f"{self.entry.name}: its tensors lie on {host}, and it is hosted on the CPU")
        return self._library.watched if check or count else self._plain

    def __call__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        import torch

        with torch._C.DisableTorchFunction(), torch.profiler.record_function(f"{self.entry.name} (hosted Metal)"):
            self._refuse_host_memory(args)
            if _watched is None:
                super().__call__(*args, **kwargs)
            else:
                self._watch(_watched, args, kwargs)

    def _watch(self, watched: Watched, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        kwargs.pop("error_buf_idx", None)  # where a kernel reports its own errors, which were none on the plain build
        report = self.watched(*args, **kwargs)
        watched.launches += 1
        watched.faults += self._library.placed(fault.message for fault in report.faults)
        watched.remarks += self._library.placed(fault.message for fault in report.remarks)
        if report.counters is not None:
            watched.estimate_us += roofline(report.counters, watched.chip).at_least_us

    def _refuse_host_memory(self, args: Sequence[Any]) -> None:
        """As torch does on a Mac, where the code that calls takes this machine for one."""
        import torch

        from kernelwright.targets import metal_host

        if metal_host.active():
            for index, value in enumerate(args):
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, torch.Tensor) and not metal_host.on_mps(tensor):
                        raise RuntimeError(f"Passed CPU tensor to MPS op (argument {index} of {self.entry.name})")
