"""Loop functions of other people's kinds: plain Python, the interpreter and C++ agree on each."""

import copy
import ctypes
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import Program


def load(name: str) -> Any:
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(f"loops_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


CASES = load("loop_functions").CASES
type_of, call = (getattr(load("test_python"), name) for name in ("type_of", "call"))


def arguments_of(name: str, real: str) -> tuple[Any, ...]:
    return CASES[name][1](np.random.default_rng(sum(map(ord, name))), real)


def fresh(arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments to be written into, of the same strides."""
    kept = []
    for value in arguments:
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            base = np.empty((value.shape[0], value.shape[1]), value.dtype, order="C")
            base[:] = value
            other = np.zeros((2 * value.shape[0], value.shape[1]), value.dtype)[::2, ::-1]
            other[:] = base
            kept.append(other)
        else:
            kept.append(copy.deepcopy(value))
    return kept


def plain(name: str, arguments: list[Any]) -> tuple[Any, ...]:
    """What Python itself returns, the arguments written into."""
    with np.errstate(all="ignore"):
        result = CASES[name][0](*arguments)
    if result is None:
        return ()
    return result if isinstance(result, tuple) else (result,)


@pytest.fixture(scope="module", params=["float64", "float32"])
def real(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def compiled(build: Callable[..., ctypes.CDLL], real: str) -> tuple[ctypes.CDLL, dict[str, Program]]:
    """All functions in one translation unit."""
    programs = {
        name: loops.parse(function, [type_of(value) for value in arguments_of(name, real)])
        for name, (function, _) in CASES.items()
    }
    texts = [loops.print_function(program) for program in programs.values()]
    return build("\n".join([loops.program_template(), *texts])), programs


def same(found: list[Any], wanted: list[Any], real: str) -> None:
    """Within what libm rounds; with float32 arrays Numba computes in float64 where NumPy does not."""
    tolerance = {"float64": 1e-12, "float32": 2e-3, "interpreted": 2e-6}[real]
    for one, other in zip(found, wanted, strict=True):
        if np.asarray(other).dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", CASES)
def test_cpp_computes_what_python_does(name: str, real: str, compiled: tuple[ctypes.CDLL, dict[str, Program]]) -> None:
    library, programs = compiled
    given = arguments_of(name, real)
    wanted, found, slow = fresh(given), fresh(given), fresh(given)
    results = plain(name, wanted)
    same([*call(library, programs[name], *found), *found], [*results, *wanted], real)
    returned = loops.interpret(programs[name], *slow)
    same(
        [*returned, *slow],
        [*call(library, programs[name], *fresh(given)), *found],
        "float64" if real == "float64" else "interpreted",
    )
