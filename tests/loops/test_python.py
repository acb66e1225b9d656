"""Python functions as programs: what comes out is what Python computes, and what is wrong is said where it is."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import ArrayType, Program, ScalarType

F64, I64 = ScalarType.FLOAT64, ScalarType.INT64


class KwError(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("kind", "line", "column", "argument", "axis", "set")),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


def type_of(value: Any) -> ArrayType | ScalarType:
    """An argument's type, as the functions' room finds it."""
    if isinstance(value, np.ndarray):
        return ArrayType(ScalarType(str(value.dtype)), value.ndim, value.flags.c_contiguous)
    if isinstance(value, np.generic):
        return ScalarType(str(value.dtype))
    return ScalarType.BOOL if isinstance(value, bool) else (I64 if isinstance(value, int) else F64)


def call(library: ctypes.CDLL, program: Program, *arguments: Any) -> tuple[Any, ...]:
    """Calls the compiled program by the C convention; the scalars it returns. Raises Failed."""
    arrays, scalars, kept = [], [], []
    for argument, value in zip(program.arguments, arguments, strict=True):
        if isinstance(argument.type, ArrayType):
            words = np.array(
                [value.ctypes.data, *value.shape, *(stride // value.itemsize for stride in value.strides)], np.int64
            )
            arrays.append(words.ctypes.data)
        else:
            words = np.array(value, argument.type.value)
            scalars.append(words.ctypes.data)
        kept.append(words)
    results = np.zeros(max(1, len(program.result)), np.int64)
    error = KwError()
    failed = getattr(library, program.symbol)(
        (ctypes.c_void_p * (len(arrays) + 1))(*arrays),
        (ctypes.c_void_p * (len(scalars) + 1))(*scalars),
        ctypes.c_void_p(results.ctypes.data),
        ctypes.byref(error),
    )
    if failed:
        raise Failed(error)
    return tuple(results[number : number + 1].view(type.value)[0].item() for number, type in enumerate(program.result))


class Failed(Exception):
    def __init__(self, error: KwError) -> None:
        self.error = error


def shuffle_mul(a, b, operator, res):
    res[:] = 0.0
    for n in range(operator.shape[0]):
        i, j, k, count = operator[n]
        res[k] += count * a[i] * b[j]


def founding(length: int = 943, type: str = "int64") -> tuple[np.ndarray, ...]:
    """Arguments of the founding function."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, size, length) for size in (15, 15, 127)]
    operator = np.stack([*columns, rng.integers(-3, 4, length)], 1).astype(type)
    return rng.standard_normal(15), rng.standard_normal(15), operator, np.empty(127)


@pytest.mark.parametrize("checked", [True, False])
def test_the_founding_function(build: Callable[..., ctypes.CDLL], checked: bool) -> None:
    a, b, operator, res = founding()
    program = loops.parse(shuffle_mul, [type_of(value) for value in (a, b, operator, res)])
    assert [(one.name, one.written, one.read) for one in program.arguments] == [
        ("a", False, True),
        ("b", False, True),
        ("operator", False, True),
        ("res", True, True),
    ]
    wanted = np.empty_like(res)
    shuffle_mul(a, b, operator, wanted)
    call(build(loops.print_program_cpp(program, boundscheck=checked)), program, a, b, operator, res)
    assert np.array_equal(res, wanted)
    loops.interpret(program, a, b, operator, res)
    assert np.array_equal(res, wanted)


def test_an_index_outside_is_told(build: Callable[..., ctypes.CDLL]) -> None:
    a, b, operator, res = founding()
    operator[500, 2] = 127
    program = loops.parse(shuffle_mul, [type_of(value) for value in (a, b, operator, res)])
    with pytest.raises(Failed) as caught:
        call(build(loops.print_program_cpp(program)), program, a, b, operator, res)
    error = caught.value.error
    assert (error.kind, error.argument, error.axis, error.index, error.size) == (1, 3, 0, 127, 127)
    assert error.line == shuffle_mul.__code__.co_firstlineno + 4
    with pytest.raises(IndexError, match=r"test_python.py:\d+:13: index 127 is out of bounds for axis 0 of res"):
        loops.interpret(program, a, b, operator, res)
