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
    return build("\n".join([loops.program_template(), *texts]), "-O1"), programs


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


@pytest.fixture(scope="module")
def threaded(build: Callable[..., ctypes.CDLL]) -> tuple[ctypes.CDLL, dict[str, Program]]:
    """The functions with free loops, every iteration worth a thread, and threads that take turns."""
    programs = {
        name: loops.parse(function, [type_of(value) for value in arguments_of(name, "float64")])
        for name, (function, _) in CASES.items()
    }
    programs = {name: one for name, one in programs.items() if any(plan.free for plan in loops.analyse(one).loops)}
    texts = [loops.print_function(program, parallel=True) for program in programs.values()]
    eager = loops.program_template().replace("return work < 1 ? worth : worth / work + 1;", "return 1;")
    assert eager != loops.program_template()
    library = build("\n".join([TURNS, eager, *texts]), "-O1")
    library.start_turns()
    return library, programs


TURNS = """
static int turn, taken;
static void take_turns(void (*body)(void*), void* data, uint32, uint32) {
    ++taken;
    for (turn = 2; turn >= 0; --turn) body(data);
}
static int whose_turn() { return turn; }
static int three() { return 3; }
static kernelwright::Runtime runtime_with_turns = {.gomp_parallel = take_turns, .omp_get_thread_num = whose_turn,
    .omp_get_num_threads = three, .omp_get_max_threads = three, .torch_get_num_threads = three};
extern "C" int turns_taken() { return taken; }
extern "C" void start_turns() { kernelwright::kernelwright_runtime = &runtime_with_turns; }
"""
"""Three threads, as far as a kernel can tell, that run one after another and the last first."""


def test_overlapping_arguments_run_one_after_another(threaded: tuple[ctypes.CDLL, dict[str, Program]]) -> None:
    library, programs = threaded
    memory, wanted = np.arange(40.0), np.arange(40.0)
    before = library.turns_taken()
    call(library, programs["axpy"], 2.0, memory[:-1], memory[1:])
    CASES["axpy"][0](2.0, wanted[:-1], wanted[1:])
    assert np.array_equal(memory, wanted) and library.turns_taken() == before
    bins, other = np.arange(16), np.arange(16)
    call(library, programs["histogram"], bins[:0], bins)  # no iteration at all
    call(library, programs["histogram"], bins, bins)
    CASES["histogram"][0](other, other)
    assert np.array_equal(bins, other)


@pytest.mark.parametrize("name", CASES)
def test_parallel_loops_compute_the_same(name: str, threaded: tuple[ctypes.CDLL, dict[str, Program]]) -> None:
    library, programs = threaded
    if name not in programs:
        pytest.skip("no loop of it is free")
    given = arguments_of(name, "float64")
    found, wanted = fresh(given), fresh(given)
    results = plain(name, wanted)
    before = library.turns_taken()
    returned = call(library, programs[name], *found)
    same([*returned, *found], [*results, *wanted], "float64")
    if name in ("heat_step", "histogram", "logsumexp", "n_body", "spmv_coo", "k_means_step"):
        assert library.turns_taken() > before
