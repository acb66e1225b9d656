"""The slow way into a function: what each argument is, in types and words, or a TypeError that says what is wrong."""

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.functions.constants import Constant
from kernelwright.functions.signatures import Type, words
from kernelwright.loops import ArrayType, ScalarType
from kernelwright.targets.entry.call import tensor_fault

_CTYPES = {
    ScalarType.FLOAT64: ctypes.c_double,
    ScalarType.FLOAT32: ctypes.c_float,
    ScalarType.BOOL: ctypes.c_bool,
    **{kind: getattr(ctypes, f"c_{kind.value}") for kind in ScalarType if kind.value.startswith(("int", "uint"))},
}
_TENSORS = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float32", "float64")


@dataclass(frozen=True)
class Given:
    """One argument as it was given."""

    type: Type
    value: Any
    """The number, or the words (data, shape..., strides..., in elements) of an array."""
    refusal: str = ""
    """Why it cannot be written to; empty where it can."""
    kept: Any = None
    """What owns the memory."""


def given(value: Any, place: str) -> Given:
    """What `value` is. `place` names it in a TypeError: "argument 1, 'a', of shuffle_mul"."""
    if isinstance(value, bool):
        return Given(ScalarType.BOOL, value)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 63:
            raise TypeError(f"{place}: {value} does not fit into int64")
        return Given(ScalarType.INT64, value)
    if isinstance(value, float) and type(value) is float:
        return Given(ScalarType.FLOAT64, value)
    if isinstance(value, complex):
        raise TypeError(f"{place}: complex numbers are not supported")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor(value, place)
    import numpy

    if isinstance(value, numpy.generic):
        return Given(_scalar_type(value.dtype, place), value.item())
    if isinstance(value, numpy.ndarray):
        if type(value) not in (numpy.ndarray, numpy.memmap, Constant):
            raise TypeError(f"{place}: a {type(value).__name__} is not supported; pass numpy.asarray of it")
        return _array(value, place, "" if value.flags.writeable else "it is read-only")
    if hasattr(value, "__dlpack__"):
        return _foreign(value, place)
    if isinstance(value, list | tuple):
        raise TypeError(f"{place}: a {type(value).__name__} is not supported; pass numpy.array of it")
    raise TypeError(f"{place}: {value!r:.60} ({type(value).__name__}) is neither an array nor a number")


def _scalar_type(dtype: Any, place: str) -> ScalarType:
    if dtype.names is not None:
        raise TypeError(f"{place}: records are not supported; pass their fields as arrays: x['{dtype.names[0]}']")
    if not dtype.isnative:
        raise TypeError(f"{place}: its bytes are in the other order; pass x.astype(x.dtype.newbyteorder('='))")
    try:
        kind = ScalarType(dtype.name)
    except ValueError:
        kind = None
    if kind not in _CTYPES:
        raise TypeError(f"{place}: dtype {dtype} is not supported; {', '.join(_TENSORS)} are")
    return kind


def _array(array: Any, place: str, refusal: str) -> Given:
    kind = _scalar_type(array.dtype, place)
    if array.ndim > 8:
        raise TypeError(f"{place}: an array of {array.ndim} axes; at most 8 are supported")
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        raise TypeError(f"{place}: its elements do not stand at multiples of their size; pass x.copy()")
    strides = [stride // array.itemsize for stride in array.strides]
    return _words(kind, array.ctypes.data, array.shape, strides, bool(array.flags.c_contiguous), refusal, array)


def _tensor(tensor: Any, place: str) -> Given:
    fault = tensor_fault(tensor, _TENSORS, strided=True)
    if fault:
        raise TypeError(f"{place}: {fault}")
    kind = ScalarType(str(tensor.dtype).removeprefix("torch."))
    return _words(kind, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.is_contiguous(), "", tensor)


def _foreign(value: Any, place: str) -> Given:
    """An array of another library where it lies, to be read only: JAX promises that its arrays never change."""
    import numpy

    kind = f"a {type(value).__module__.partition('.')[0]} {type(value).__name__}"
    try:
        array = numpy.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{place}: {kind} that NumPy cannot read where it lies: {error}") from None
    return _array(array, place, f"{kind} is only read; pass numpy.array of it")


def _words(
    kind: ScalarType,
    data: int,
    shape: Sequence[int],
    strides: Sequence[int],
    contiguous: bool,
    refusal: str,
    kept: Any,
) -> Given:
    if contiguous:  # strides of axes of size 1 may say anything
        step, packed = 1, []
        for size in reversed(shape):
            packed.append(step)
            step *= size
        strides = packed[::-1]
    values = (ctypes.c_int64 * (1 + 2 * len(shape)))(data, *shape, *strides)
    return Given(ArrayType(kind, len(shape), contiguous), values, refusal, kept)


def convert(argument: Given, wanted: Type, place: str) -> Given:
    """`argument` as an explicit signature wants it: numbers are converted where nothing is lost by their kind."""
    if argument.type == wanted:
        return argument
    here = argument.type
    if isinstance(wanted, ArrayType) or isinstance(here, ArrayType):
        raise TypeError(f"{place}: {words(wanted)} was declared, and this is {words(here)}")
    if here.floating and not wanted.floating:
        raise TypeError(f"{place}: {words(wanted)} was declared, and {argument.value!r} is {words(here)}")
    if not wanted.floating and wanted is not ScalarType.BOOL:
        low, high = _range(wanted)
        if not low <= argument.value <= high:
            raise TypeError(f"{place}: {argument.value} does not fit into {wanted.value}")
    return Given(wanted, argument.value)


def _range(kind: ScalarType) -> tuple[int, int]:
    bits = 8 * kind.bytes
    return (0, (1 << bits) - 1) if kind.value.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def scalar_cell(kind: ScalarType, value: Any) -> Any:
    """A number where a program can read it."""
    return _CTYPES[kind](value)


def read_result(kind: ScalarType, cell: ctypes.c_int64) -> Any:
    """The Python number in a result's 8 bytes."""
    return _CTYPES[kind].from_buffer(cell).value
