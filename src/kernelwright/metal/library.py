"""`compile_shader`: Metal source to callable kernels, by torch.mps's own convention, on a machine without Metal."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelwright import simt
from kernelwright.errors import CompileError, LaunchError, UnknownNameError
from kernelwright.metal import diagnostics, frontend, native
from kernelwright.metal.arguments import Reported, bind
from kernelwright.metal.constants import Constants
from kernelwright.simt import Entry, Report, Unit


class Shaders(Protocol):
    """A compiled source: an attribute for each kernel, `dir()` lists them."""

    def __getattr__(self, name: str) -> Callable[..., Any]: ...


def compile_shader(
    source: str,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    constants: Constants | None = None,
    *,
    name: str = "shader.metal",
    defines: Sequence[str] = (),
) -> Shaders:
    """The kernels of `source`, each an attribute of what comes back.

        lib = compile_shader(text, include_dirs=["kernels"], constants={0: True})
        lib.softmax(out, x, 1000, threads=(256 * rows,), group_size=(256,))

    `constants` gives values to function constants, by number or name; `defines` are macros ("N=4"); `name` stands for
    the source in messages, and includes in quotes are looked for beside it. A kernel is compiled when it is first
    called. On a Mac this is torch.mps.compile_shader itself. Raises CompileError with the user's own lines.
    """
    if native.available():
        return native.compile_shader(source, include_dirs, constants, name=name, defines=defines)
    given = frontend.source(source, name=name, include_dirs=include_dirs, defines=defines, constants=constants)
    return Library(frontend.module(given), given)


class Library:
    """Kernels of one source, hosted on this machine's CPU or its NVIDIA GPU."""

    def __init__(self, module: frontend.Module, source: frontend.Source) -> None:
        self._module, self._source = module, source
        self._kernels: dict[str, Kernel] = {}

    @property
    def unit(self) -> Unit:
        """The translated source."""
        return self._module.unit

    @property
    def constants(self) -> tuple[frontend.Constant, ...]:
        """The function constants that the source declares."""
        return self._module.constants

    def verify(self, names: Sequence[str] | None = None) -> None:
        """Checks the kernels of these names, or all, without making code of them. Raises CompileError."""
        try:
            simt.verify(self._module.unit, names)
        except CompileError as error:
            raise diagnostics.told(error, self._source, self._module.unit.text) from None

    def build(
        self, names: Sequence[str] | None = None, host: str = "cpu", *, check: bool = False, count: bool = False
    ) -> None:
        """Compiles the kernels of these names, or all, in one go: cheaper than each when it is first called.

        Raises CompileError, for all of them where one does not compile.
        """
        kernels = [self[name] for name in (dir(self) if names is None else names)]
        try:
            built = simt.build(
                self._module.unit,
                [kernel.entry.name for kernel in kernels],
                host=host,  # pyright: ignore[reportArgumentType]
                check=check,
                count=count,
            )
        except CompileError as error:
            raise diagnostics.told(error, self._source, self._module.unit.text) from None
        for kernel in kernels:
            kernel.take(built, host, check=check, count=count)

    def measured(self, names: Sequence[str] | None = None) -> tuple[Entry, ...]:
        """The kernels of these names, or all, with the bytes of threadgroup memory that they declare.

        Free where the source declares none; else they are compiled as far as verify() does. Raises CompileError.
        """
        unit = self._module.unit
        if "SIMT_GROUP " not in unit.text:
            return tuple(entry for entry in unit.entries if names is None or entry.name in names)
        try:
            return simt.measured(unit, names)
        except CompileError as error:
            raise diagnostics.told(error, self._source, unit.text) from None

    def __dir__(self) -> list[str]:
        return sorted(entry.name for entry in self._module.unit.entries)

    def __getattr__(self, name: str) -> "Kernel":
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> "Kernel":
        """The kernel `name`, which may be no name in Python. Raises UnknownNameError."""
        if name not in self._kernels:
            entry = next((entry for entry in self._module.unit.entries if entry.name == name), None)
            if entry is None:
                raise UnknownNameError("kernel", name, dir(self))
            self._kernels[name] = Kernel(self._module.unit, entry, self._source)
        return self._kernels[name]


class Kernel:
    """One kernel, called with its buffers in order."""

    def __init__(self, unit: Unit, entry: Entry, source: frontend.Source) -> None:
        self.entry = entry
        self._unit, self._source = unit, source
        self._built: dict[str, simt.Library] = {}

    @property
    def max_threads_per_threadgroup(self) -> int:
        """The most threads of a group, as far as the source limits them."""
        return self.entry.max_threads or 1024

    @property
    def thread_execution_width(self) -> int:
        """Threads of a SIMD group."""
        return self._unit.simd_width

    @property
    def static_thread_group_memory_length(self) -> int:
        """Bytes of threadgroup memory that the kernel declares; it is compiled for that."""
        return self.build().entries[self.entry.name].group_memory_bytes

    def build(self, host: str = "cpu", *, check: bool = False, count: bool = False) -> simt.Library:
        """Compiles the kernel for "cpu" or "cuda", once. Raises CompileError with the user's own lines."""
        key = _key(host, check, count)
        if key not in self._built:
            try:
                self._built[key] = simt.build(
                    self._unit,
                    [self.entry.name],
                    host=host,  # pyright: ignore[reportArgumentType]
                    check=check,
                    count=count,
                )
            except CompileError as error:
                raise diagnostics.told(error, self._source, self._unit.text) from None
        return self._built[key]

    def take(self, built: simt.Library, host: str, *, check: bool, count: bool) -> None:
        """Uses what was built for several kernels at once."""
        self._built[_key(host, check, count)] = built

    def __call__(
        self,
        *args: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        arg_casts: str | Mapping[int, str] | None = None,
        group_memory: Mapping[int, int] | None = None,
        error_buf_idx: int | None = None,
    ) -> Report:
        """Runs the kernel. Argument i is buffer i: a tensor or array, a number, a list of numbers or tensors.

        `threads` counts all threads (not groups), default one for each element of the first tensor; `group_size` of
        the same rank, default as large as can be. `group_memory` gives bytes to [[threadgroup(n)]] parameters, which
        torch has no word for. None leaves a buffer out that a function constant switches off. Buffer `error_buf_idx`
        takes what TORCH_REPORT_ERROR writes (c10/metal/error.h); the first message is raised as LaunchError.
        """
        if error_buf_idx is None:
            return self._launch(args, threads, group_size, arg_casts, group_memory)
        reported = Reported()
        values = [*args, *[None] * (error_buf_idx + 1 - len(args))]
        values[error_buf_idx] = reported.held
        report = self._launch(values, threads, group_size, arg_casts, group_memory)
        reported.check(self.entry.name)
        return report

    def watched(
        self,
        *args: Any,
        threads: int | Sequence[int] | None = None,
        group_size: int | Sequence[int] | None = None,
        arg_casts: str | Mapping[int, str] | None = None,
        group_memory: Mapping[int, int] | None = None,
    ) -> Report:
        """The same call on a build that tells what is wrong (`faults`) and what it cost (`counters`); on the CPU."""
        return self._launch(args, threads, group_size, arg_casts, group_memory, watched=True)

    def _launch(
        self,
        args: Sequence[Any],
        threads: int | Sequence[int] | None,
        group_size: int | Sequence[int] | None,
        arg_casts: str | Mapping[int, str] | None,
        group_memory: Mapping[int, int] | None,
        *,
        watched: bool = False,
    ) -> Report:
        name = self.entry.name
        bound = bind(name, args, arg_casts)
        arguments = dict(bound.arguments)
        for index in {p.index for p in self.entry.parameters if p.kind == "buffer"} - set(arguments):
            if index < len(args):
                arguments[index] = (0, 0)
        if threads is None and bound.elements is None:
            raise LaunchError(f"{name}: give threads=, as there is no tensor to count the elements of")
        grid = _numbers(bound.elements or 1 if threads is None else threads)
        limit = self.max_threads_per_threadgroup
        group = _numbers(group_size) if group_size is not None else (min(grid[0], limit), *[1] * (len(grid) - 1))
        if len(group) != len(grid):
            raise LaunchError(f"{name}: threads has {len(grid)} numbers and group_size {len(group)}")
        built = self.build(bound.host, check=watched, count=watched)
        return built.launch(name, arguments, threads=grid, group_size=group, group_memory=group_memory or {})


def _key(host: str, check: bool, count: bool) -> str:
    return f"{host} {check} {count}"


def _numbers(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
