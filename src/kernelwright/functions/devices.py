"""Functions on devices: loops that are free become grids, in Metal's language or in CUDA's.

Arrays travel where they have to: NumPy arrays are copied to the device and what was written comes back; tensors that
lie there already are used where they are. Where no Metal device is, Metal runs hosted on the CPU.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import MissingError, UsageError
from kernelwright.functions.arguments import given
from kernelwright.functions.failures import failing
from kernelwright.functions.options import Options
from kernelwright.functions.signatures import Type, Types
from kernelwright.loops import ArrayType, ScalarType
from kernelwright.loops.program import Index

HOSTED = "{}: there is no Metal device here; the CPU stands in for it, and its times say nothing"
_GROUP = 256
_DEVICES = {"metal": "mps", "cuda": "cuda"}


def device_of(options: Options, values: Sequence[Any]) -> str | None:
    """Which device these arguments ask for: the target, or for "auto" the one they lie on. None for the CPU."""
    if options.target in _DEVICES:
        return options.target
    if options.target == "auto":
        for name, kind in _DEVICES.items():
            if any(getattr(getattr(value, "device", None), "type", None) == kind for value in values):
                return name
    return None


def types_of(values: Sequence[Any], places: Sequence[str]) -> Types:
    """The types of the arguments, wherever they lie. Arrays are made contiguous on their way."""
    return tuple(_type_of(value, place) for value, place in zip(values, places, strict=True))


def _type_of(value: Any, place: str) -> Type:
    if type(value).__module__.startswith("torch") and hasattr(value, "dim"):
        if value.requires_grad:
            raise TypeError(f"{place}: a tensor that requires grad; call it with tensors that are detached")
        return ArrayType(ScalarType(str(value.dtype).removeprefix("torch.")), value.dim())
    kind = given(value, place).type
    return replace(kind, contiguous=True) if isinstance(kind, ArrayType) else kind


def narrowed(types: Types) -> Types:
    """The types with float32 for float64."""
    return tuple(
        replace(kind, dtype=_narrow(kind.dtype)) if isinstance(kind, ArrayType) else _narrow(kind) for kind in types
    )


def _narrow(kind: ScalarType) -> ScalarType:
    return ScalarType.FLOAT32 if kind is ScalarType.FLOAT64 else kind


def has_float64_arrays(types: Types) -> bool:
    return any(isinstance(kind, ArrayType) and kind.dtype is ScalarType.FLOAT64 for kind in types)


class Device:
    """Where arrays go, and who compiles. Hosted Metal's memory is the CPU's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._native = name != "metal" or _metal_is_here()

    def move(self, array: Any, dtype: str | None = None) -> Any:
        """The array on the device, contiguous and of the dtype: itself where that is what it is."""
        if not self._native:
            return np.ascontiguousarray(self.host(array), dtype)
        import torch

        tensor = array if isinstance(array, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(self.host(array)))
        wanted = tensor.dtype if dtype is None else getattr(torch, dtype)
        return tensor.detach().to(_DEVICES[self.name], wanted).contiguous()

    @staticmethod
    def host(array: Any) -> np.ndarray:
        """The array in the CPU's memory."""
        return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)

    def compiled(
        self, program: loops.Program, boundscheck: bool, *, batched: bool = False
    ) -> tuple[tuple[loops.Launch, ...], Any]:
        """The kernels' launches and the library. Raises UnsupportedError, CompileError or MissingError."""
        if self.name == "metal":
            from kernelwright.metal import compile_shader

            printed = loops.print_program_msl(program, boundscheck=boundscheck, batched=batched)
            return printed.launches, compile_shader(loops.msl_template() + printed.text, name=f"{program.name}.metal")
        from kernelwright.targets import compile
        from kernelwright.targets.broker import language

        reason = language("cuda").missing()
        if reason is not None:
            raise MissingError(f"target='cuda': {reason}")
        printed = loops.print_program_cuda(program, boundscheck=boundscheck, batched=batched)
        return printed.launches, compile(loops.cuda_template() + printed.text, language="cuda")


class DeviceOverload:
    """A function compiled for a device and the types of its arguments."""

    def __init__(self, function: Callable[..., Any], types: Types, options: Options, device: str) -> None:
        self.device, self.types = Device(device), types
        single = device == "metal" or options.precision == "float32"
        if single:
            self.types = narrowed(types)
        real = ScalarType.FLOAT32 if single else ScalarType.FLOAT64
        self.program = loops.parse(function, self.types, real=real)
        if options.deterministic and _adds_by_atomics(self.program):
            raise UsageError(
                f"{self.program.name}: deterministic=True with target={device!r}: its scatter adds floating numbers by "
                "atomics, in another order each time; target='cpu' has a fixed one"
            )
        self._fail = failing(self.program)
        self._launches, self._library = self.device.compiled(self.program, options.boundscheck)

    def __call__(self, values: Sequence[Any]) -> Any:
        """Runs it; waits for the device."""
        arrays: list[Any] = []
        back: list[tuple[Any, Any]] = []
        sizes: list[int] = []
        scalars: list[Any] = []
        shown: list[Any] = []
        for argument, kind, value in zip(self.program.arguments, self.types, values, strict=True):
            if isinstance(kind, ScalarType):
                scalars.append(np.dtype(kind.value).type(value).item())
                shown.append(scalars[-1])
                continue
            array = self.device.move(value, kind.dtype.value)
            arrays.append(array)
            sizes += [*map(int, array.shape), *packed_strides(array.shape), 0]
            shown.append(np.broadcast_to(np.zeros((), kind.dtype.value), tuple(array.shape)))
            if argument.written:
                back.append((value, array))
        words = self.device.move(np.array(sizes or [0], np.int64))
        error, results = (
            self.device.move(np.zeros(10, np.int32)),
            self.device.move(np.zeros(max(1, len(self.program.result)), np.int64)),
        )
        if any(isinstance(c, loops.Let | Index) for c in self.program.body):  # bounds may be read from arrays
            shown = [
                value if isinstance(kind, ScalarType) else Device.host(arrays[i])
                for i, kind, value in _placed(self.types, shown)
            ]
        for launch in self._launches:
            threads = loops.turns(self.program, launch, *shown)
            if threads:
                kernel = getattr(self._library, launch.kernel)
                size = min(_GROUP, threads)
                kernel(*arrays, words, *scalars, error, results, threads=(threads,), group_size=(size,))
        for value, array in back:
            _copy(array, value)
        told = np.ascontiguousarray(Device.host(error))
        if told[5]:
            self._fail(told.ctypes.data)
        cells = Device.host(results)
        answers = tuple(cells[i : i + 1].view(kind.value)[0].item() for i, kind in enumerate(self.program.result))
        return answers if len(answers) > 1 else answers[0] if answers else None


def say_once(said: set[str], sentence: str) -> None:
    """A warning, the first time."""
    if sentence not in said:
        said.add(sentence)
        warnings.warn(sentence, stacklevel=5)


def hosted(device: str) -> bool:
    """Whether the device is not here and its language runs on the CPU instead."""
    return device == "metal" and not _metal_is_here()


def _metal_is_here() -> bool:
    from kernelwright.metal import native

    return native.available()


def _adds_by_atomics(program: loops.Program) -> bool:
    plans = loops.analyse(program).loops
    return any(plan.kind is loops.Kind.SCATTER and any(b.type.floating for b, _ in plan.scatters) for plan in plans)


def _placed(types: Types, shown: Sequence[Any]) -> list[tuple[int, Type, Any]]:
    """Each argument with the number of arrays before it."""
    placed, count = [], 0
    for kind, value in zip(types, shown, strict=True):
        placed.append((count, kind, value))
        count += isinstance(kind, ArrayType)
    return placed


def packed_strides(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= int(size)
    return strides[::-1]


def copies(values: Sequence[Any]) -> list[Any]:
    """The arguments as NumPy arrays of their own, and numbers."""
    return [np.array(Device.host(value)) if hasattr(value, "shape") and value.shape else value for value in values]


def _copy(source: Any, target: Any) -> None:
    """Brings back what was written, where it was not written in place."""
    if source is target:
        return
    if hasattr(target, "copy_"):
        import torch

        if not isinstance(source, torch.Tensor):
            source = torch.from_numpy(source)
        if source.data_ptr() != target.data_ptr():
            target.detach().copy_(source)
    else:
        target[...] = Device.host(source)
