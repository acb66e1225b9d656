"""Functions on devices: loops that are free become grids, in Metal's language or in CUDA's.

Arrays travel where they have to: NumPy arrays are copied to the device and what was written comes back; tensors that
lie there already are used where they are. Where no Metal device is, Metal runs hosted on the CPU.
"""

import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from kernelwright import loops
from kernelwright.errors import MissingError
from kernelwright.functions import pairs
from kernelwright.functions.arguments import given
from kernelwright.functions.constants import Constant, is_constant
from kernelwright.functions.options import Options
from kernelwright.functions.signatures import Type, Types
from kernelwright.loops import ArrayType, DeviceProgram, ScalarType

HOSTED = "{}: there is no Metal device here; the CPU stands in for it, and its times say nothing"
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


def on_device(value: Any) -> bool:
    """Whether it is a tensor in a device's memory, not in the CPU's."""
    return getattr(getattr(value, "device", None), "type", "cpu") in _DEVICES.values()


def types_of(values: Sequence[Any], place: Callable[[int], str]) -> Types:
    """The types of the arguments, wherever they lie. Arrays are made contiguous on their way. `place`: what an error
    calls an argument, by its number."""
    return tuple(_type_of(value, index, place) for index, value in enumerate(values))


@cache
def _tensor_type(dtype: Any, ndim: int) -> ArrayType:
    return ArrayType(ScalarType(str(dtype).removeprefix("torch.")), ndim)


def _type_of(value: Any, index: int, place: Callable[[int], str]) -> Type:
    if type(value).__module__.startswith("torch") and hasattr(value, "dim"):
        if value.requires_grad:
            raise TypeError(f"{place(index)}: a tensor that requires grad; call it with tensors that are detached")
        return _tensor_type(value.dtype, value.dim())
    kind = given(value, place(index)).type
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
    """Where arrays go, and who compiles. Hosted Metal's memory is the CPU's. `pairs`: float64 is pairs of float32, in
    arrays of int64 (pairs.py)."""

    def __init__(self, name: str, *, pairs: bool = False) -> None:
        self.name, self.pairs = name, pairs
        self._native = name != "metal" or _metal_is_here()

    def move(self, array: Any, dtype: str | None = None, place: str | None = None) -> Any:
        """The array on the device, contiguous and of the dtype: itself where that is what it is. One that cannot change
        is moved once. Raises UsageError, which calls the array `place`, for numbers that no pair holds."""
        if is_constant(array):
            return _moved_once(self, array, dtype, place)
        if self._paired(dtype or str(array.dtype)):
            return self.move(pairs.split(self.host(array), place))
        if not self._native:
            return np.ascontiguousarray(self.host(array), dtype)
        import torch

        if self.holds(array) and (dtype is None or array.dtype is getattr(torch, dtype)) and array.is_contiguous():
            return array.detach()
        tensor = array if isinstance(array, torch.Tensor) else _tensor(self.host(array))
        wanted = tensor.dtype if dtype is None else getattr(torch, dtype)
        return tensor.detach().to(_DEVICES[self.name], wanted).contiguous()

    def holds(self, array: Any) -> bool:
        """Whether it is a tensor of this device's own memory."""
        return self._native and on_device(array)

    def zeros(self, shape: int | tuple[int, ...], dtype: str) -> Any:
        """A new array on the device."""
        dtype = "int64" if self._paired(dtype) else dtype
        if not self._native:
            return np.zeros(shape, dtype)
        import torch

        return torch.zeros(shape, dtype=getattr(torch, dtype), device=_DEVICES[self.name])

    def _paired(self, dtype: str) -> bool:
        return self.pairs and dtype == "float64"

    def values(self, array: Any, dtype: ScalarType) -> np.ndarray:
        """The device's array of this dtype in the CPU's memory."""
        return pairs.joined(self.host(array)) if self._paired(dtype.value) else self.host(array)

    def numbers(self, cells: np.ndarray, kind: ScalarType) -> np.ndarray:
        """What kernels returned in cells of 8 bytes, one after the other."""
        return pairs.joined(cells) if self._paired(kind.value) else cells.view(kind.value)[:: 8 // kind.bytes]

    def passed(self, number: Any, kind: ScalarType, place: str | None = None) -> Any:
        """A number as kernels take it. Raises UsageError, which calls it `place`, where no pair holds it."""
        return pairs.split(number, place).item() if self._paired(kind.value) else number

    def kept(self, array: Any, dtype: ScalarType) -> Any:
        """Of pairs a copy, to tell later what was written; else None."""
        if not self._paired(dtype.value):
            return None
        return array.clone() if hasattr(array, "clone") else array.copy()

    @property
    def rounding(self) -> float:
        """Of one addition in float64, at most; 0 where that is what NumPy has."""
        return pairs.ROUNDING if self.pairs else 0.0

    def wait(self) -> None:
        """Until all that was launched has ended."""
        if self._native:
            import torch

            getattr(torch, _DEVICES[self.name]).synchronize()

    @property
    def kind(self) -> str:
        """Which device it is, of those that choices are remembered for."""
        if self.name == "metal":
            return "metal" if self._native else "metal, hosted"
        import torch

        return torch.cuda.get_device_name()

    @property
    def processors(self) -> int:
        """Among which a device that has twins of kernels deals out their groups."""
        import torch

        return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count

    @staticmethod
    def host(array: Any) -> np.ndarray:
        """The array in the CPU's memory."""
        return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)

    def compiled(
        self, program: loops.Program, boundscheck: bool, *, batched: bool = False, common: frozenset[str] = frozenset()
    ) -> tuple[DeviceProgram, Any]:
        """What was printed and the library. `common`: arguments that all items of a batch share. Raises
        UnsupportedError, CompileError or MissingError."""
        if self.name == "metal":
            from kernelwright.metal import compile_shader

            printed = loops.print_program_msl(program, boundscheck=boundscheck, batched=batched, pairs=self.pairs)
            text = loops.msl_template(pairs=self.pairs) + printed.text
            return printed, compile_shader(text, name=f"{program.name}.metal")
        from kernelwright.targets import compile
        from kernelwright.targets.broker import language

        reason = language("cuda").missing()
        if reason is not None:
            raise MissingError(f"target='cuda': {reason}")
        printed = loops.print_program_cuda(program, boundscheck=boundscheck, batched=batched, common=common)
        return printed, compile(loops.cuda_template() + printed.text, language="cuda")


def _tensor(array: np.ndarray) -> Any:
    """The array as a tensor on the CPU, of which nothing is written."""
    import torch

    plain = np.ascontiguousarray(array)
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy())


_constants: dict[tuple[int, str, str | None], Any] = {}


def _moved_once(device: Device, array: Constant, dtype: str | None, place: str | None) -> Any:
    key = (id(array), device.name, dtype)
    if key not in _constants:
        # A plain view: the kept copy must not hold the array that it is kept for.
        _constants[key] = device.move(array.view(np.ndarray), dtype, place)
        weakref.finalize(array, _constants.pop, key, None).atexit = False
    return _constants[key]


def say_once(said: set[str], sentence: str) -> None:
    """A warning, the first time."""
    if sentence not in said:
        said.add(sentence)
        warnings.warn(sentence, stacklevel=5)


def error_words(name: str, precision: str | None, results: Sequence[tuple[str, Any, np.ndarray]]) -> str:
    """What is said of results, each with its name, beside those of float64 on the CPU."""
    words = ", ".join(f"{one} {_error(Device.host(found), wanted):.1e}" for one, found, wanted in results)
    return f"{name}: precision={precision!r}: largest error over the largest value: {words}"


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest over the largest value; infinite where one is finite and the other is not."""
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(np.isfinite(found), finite):
        return float("inf")
    scale = float(np.max(np.abs(wanted[finite]), initial=0.0)) or 1.0
    return float(np.max(np.abs(found[finite] - wanted[finite]), initial=0.0)) / scale


def hosted(device: str) -> bool:
    """Whether the device is not here and its language runs on the CPU instead."""
    return device == "metal" and not _metal_is_here()


def _metal_is_here() -> bool:
    from kernelwright.metal import native

    return native.available()


def packed_strides(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= int(size)
    return strides[::-1]


def copies(values: Sequence[Any]) -> list[Any]:
    """The arguments as NumPy arrays of their own, and numbers."""
    return [
        np.array(Device.host(value), order="C") if hasattr(value, "shape") and value.shape else value
        for value in values
    ]


def bring_back(source: Any, target: Any, before: Any = None) -> None:
    """Brings back what was written, where it was not written in place. `before`: what pairs were, see Device.kept."""
    if source is target:
        return
    if before is not None:
        pairs.bring_back(Device.host(source), Device.host(before), Device.host(target))
        return
    if hasattr(target, "copy_"):
        import torch

        if not isinstance(source, torch.Tensor):
            source = torch.from_numpy(source)
        if source.data_ptr() != target.data_ptr():
            target.detach().copy_(source)
    else:
        target[...] = Device.host(source)
