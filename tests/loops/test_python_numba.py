"""Where Numba is installed: its types are ours, and its results too."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import ArrayType, ScalarType

numba = pytest.importorskip("numba", reason="Numba is not installed")


@pytest.fixture(scope="module")
def functions() -> ModuleType:
    """The loop functions, those that others call compiled by Numba."""
    spec = importlib.util.spec_from_file_location("numba_functions", Path(__file__).with_name("loop_functions.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name in ("uniform", "gcd", "newton"):
        setattr(module, name, numba.njit(getattr(module, name)))
    return module


def type_of(value: Any) -> ArrayType | ScalarType:
    if isinstance(value, np.ndarray):
        return ArrayType(ScalarType(str(value.dtype)), value.ndim, value.flags.c_contiguous)
    return ScalarType.INT64 if isinstance(value, int) else ScalarType.FLOAT64


@pytest.mark.parametrize("name", ["histogram", "ising", "bilateral", "roots", "monte_carlo_pi", "k_means_step", "fnv"])
def test_results(name: str, functions: ModuleType) -> None:
    """In float32, where Numba's rules and NumPy's part."""
    function, make = functions.CASES[name]
    given, own = (make(np.random.default_rng(3), "float32") for _ in range(2))
    returned = numba.njit(function)(*given)
    results = loops.interpret(loops.parse(function, [type_of(value) for value in own]), *own)
    returned = () if returned is None else (returned if isinstance(returned, tuple) else (returned,))
    for one, other in zip([*results, *own], [*returned, *given], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def added(a, b):
    return a + b


def divided(a, b):
    return a / b


def powered(a, b):
    return a**b


def smaller(a, b):
    return min(a, b)


def shifted(a, b):
    return a << b


def joined(a, b):
    x = a
    if b > 0:
        x = b
    return x


@pytest.mark.parametrize("function", [added, divided, powered, smaller, shifted, joined])
@pytest.mark.parametrize(
    "pair",
    [("int8", "int32"), ("uint8", "uint8"), ("uint64", "int64"), ("float32", "int16"), ("float32", "int64")],
    ids=",".join,
)
def test_types(function: Any, pair: tuple[str, str]) -> None:
    types = [ScalarType(name) for name in pair]
    try:
        theirs = numba.njit([tuple(getattr(numba, name) for name in pair)])(function).nopython_signatures[0].return_type
    except numba.core.errors.TypingError:
        with pytest.raises(loops.UnsupportedError):
            loops.parse(function, types)
        return
    assert loops.parse(function, types).result == (ScalarType(str(theirs)),)
