"""What kernels see on CPU cores: positions, lanes, barriers, edges, memory, and errors instead of hangs."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelwright.errors import CompileError, LaunchError
from kernelwright.simt import Entry, Library, Parameter, Unit, build
from kernelwright.toolchain.features import arch, features, flags


def at(array: np.ndarray) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


@pytest.fixture(scope="module")
def library(unit: Unit) -> Library:
    return build(unit, [entry.name for entry in unit.entries])


@pytest.fixture(params=["1", "3"], autouse=True)
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_THREADS", request.param)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    random = np.random.default_rng(3)
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 100, shape, dtype=dtype)
    return random.random(shape, dtype=np.float32).astype(dtype)


def test_threads_that_never_wait_run_in_a_loop(library: Library) -> None:
    x, y = numbers(100_003), np.full(100_003, np.nan, np.float32)
    arguments = {0: at(x), 1: at(y), 2: np.float32(3).tobytes()}
    report = library.launch("scaled", arguments, threads=(x.size,), group_size=(64,))
    assert report.mode == "loop" and report.switches == 0
    np.testing.assert_allclose(y, x * 3 + 1, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 7, 32, 100, 256, 1000, 1024])
def test_reduction_over_a_group_with_a_ragged_edge(library: Library, size: int) -> None:
    x, y = numbers(3 * size + size // 2), np.full(3 * size + size // 2, np.nan, np.float32)
    report = library.launch("group_sum", {0: at(x), 1: at(y)}, threads=(x.size,), group_size=(size,))
    sums = [x[i : i + size].sum(dtype=np.float64) for i in range(0, x.size, size)]
    np.testing.assert_allclose(y, np.repeat(sums, size)[: x.size], rtol=1e-5)
    assert report.mode == "regions" and report.barriers == report.groups


def test_dynamic_group_memory(library: Library) -> None:
    x = numbers(48, 80)
    y = np.full((80, 48), np.nan, np.float32)
    arguments = {0: at(x), 1: at(y)}
    library.launch("transposed", arguments, threads=(80, 48), group_size=(16, 16), group_memory={2: 16 * 17 * 4})
    np.testing.assert_array_equal(y, x.T)


def test_lanes_in_different_branches_meet_among_themselves(library: Library) -> None:
    x, y = numbers(96, dtype=np.int32), np.zeros(96, np.int32)
    library.launch("divided", {0: at(x), 1: at(y)}, threads=(96,), group_size=(96,))
    for start in range(0, 96, 32):
        v, lane = x[start : start + 32], np.arange(32)
        expected = np.where(lane % 3 == 0, v[::3].sum(), v[1::3].max())
        expected[2::3] = np.concatenate([[-1], np.cumsum(v[2::3])[:-1]])
        np.testing.assert_array_equal(y[start : start + 32], expected + 1000 * v[0])


def test_lanes_that_leave_a_loop_early(library: Library) -> None:
    x, y = numbers(32, dtype=np.uint32) % 5, np.zeros(32, np.uint32)
    library.launch("leaving", {0: at(x), 1: at(y)}, threads=(32,), group_size=(32,))
    turns = [sum(int((x >= x[i] - k).sum()) for k in range(x[i])) for i in range(32)]
    assert (y % 100 == 32).all(), "behind the loop all lanes are there again"
    assert turns  # what happens within depends on which lanes stay; see the sums below
    for count in range(1, 5):
        staying = [i for i in range(32) if x[i] == count]
        expected = sum(int((x >= turn).sum()) for turn in range(1, count + 1))
        assert all(y[i] // 100 == expected for i in staying)


SHUFFLES: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda v: np.full(32, v[5]),
    lambda v: v[np.arange(32) ^ 3],
    lambda v: np.concatenate([v[:4], v[:-4]]),
    lambda v: np.concatenate([v[4:], v[-4:]]),
    lambda v: np.roll(v, 1),
    lambda v: np.roll(v, -1),
    lambda v: np.concatenate([-v[-3:], v[:-3]]),
    lambda v: np.concatenate([v[3:], -v[:3]]),
    lambda v: np.cumsum(v),
    lambda v: np.concatenate([[1], np.cumprod(v)[:-1]]),
    lambda v: np.full(32, v.min()),
    lambda v: np.repeat(v.reshape(8, 4).sum(1), 4),
    lambda v: v.reshape(8, 4)[:, [1, 2, 3, 3]].ravel(),
    lambda v: np.concatenate([np.zeros((8, 1)), np.cumsum(v.reshape(8, 4), 1)[:, :3]], 1).ravel(),
    lambda v: np.repeat((v.reshape(8, 4) > 0.5) @ [1, 2, 4, 8], 4),
    lambda v: np.roll(v.reshape(8, 4), 1, axis=1).ravel(),
]


def test_exchange_between_lanes(library: Library) -> None:
    x, y = numbers(64), np.zeros((len(SHUFFLES), 64), np.float32)
    library.launch("lanes", {0: at(x), 1: at(y)}, threads=(64,), group_size=(64,))
    for row, expected in zip(y, SHUFFLES, strict=True):
        np.testing.assert_allclose(row, np.concatenate([expected(x[:32]), expected(x[32:])]), rtol=1e-5)


def test_threads_that_ended_are_not_waited_for(library: Library) -> None:
    x, y = numbers(128, dtype=np.int32), np.full(128, -1, np.int32)
    library.launch("early", {0: at(x), 1: at(y)}, threads=(128,), group_size=(64,))
    for start in (0, 64):
        np.testing.assert_array_equal(y[start : start + 40], x[start : start + 40][::-1])
        assert (y[start + 40 : start + 64] == -1).all()


def test_atomics_over_all_groups(library: Library) -> None:
    x = numbers(20_000, dtype=np.uint32)
    bins, most, total = np.zeros(8, np.uint32), np.zeros(1, np.uint64), np.zeros(1, np.float32)
    arguments = {0: at(bins), 1: at(most), 2: at(total), 3: at(x)}
    library.launch("counts", arguments, threads=(x.size,), group_size=(128,))
    np.testing.assert_array_equal(bins, np.bincount(x % 8, minlength=8))
    assert most[0] == int(x.max()) << 20 and total[0] == x.size / 2


def test_values_of_thirty_two_bytes(library: Library) -> None:
    x, y = numbers(32, dtype=np.uint64), np.zeros(32, np.uint64)
    library.launch("wide", {0: at(x), 1: at(y)}, threads=(32,), group_size=(32,))
    np.testing.assert_array_equal(y, x[np.arange(32) ^ 1] * 4 + 6)


def test_matrices(library: Library) -> None:
    a, b, c = numbers(8, 32, dtype=np.float16), numbers(8, 32), np.zeros((8, 8), np.float32)
    report = library.launch("product", {0: at(a), 1: at(b), 2: at(c)}, threads=(32,), group_size=(32,))
    np.testing.assert_allclose(c, 3 * (a.astype(np.float64) @ b.T.astype(np.float64)), rtol=1e-5)
    assert report.exchanges == 5


@pytest.mark.parametrize("kernel", ["where", "where_waiting"])
@pytest.mark.parametrize(
    ("threads", "group"), [((70,), (32,)), ((5, 7, 3), (4, 4, 2)), ((33, 2), (1, 2)), ((1,), (1024,))]
)
def test_builtins(library: Library, kernel: str, threads: tuple[int, ...], group: tuple[int, ...]) -> None:
    grid, whole = (*threads, 1, 1)[:3], (*group, 1, 1)[:3]
    out = np.zeros((grid[2], grid[1], grid[0], 33), np.uint32)
    report = library.launch(kernel, {0: at(out)}, threads=threads, group_size=group)
    assert report.mode == ("loop" if kernel == "where" else "regions")
    for z, y, x in np.ndindex(*out.shape[:3]):
        here = np.array((x, y, z))
        of = here // whole
        inside = here - of * whole
        size = np.minimum(whole, np.array(grid) - of * whole)
        index = (inside[2] * size[1] + inside[1]) * size[0] + inside[0]
        groups = [-(-t // g) for t, g in zip(grid, whole, strict=True)]
        simds, dispatched = -(-int(size.prod()) // 32), -(-int(np.prod(whole)) // 32)
        expected = [*here, *inside, *of, *size, *whole, *groups, *grid, 0, 0, 0]
        expected += [index, index % 32, index // 32, simds, dispatched, 32]
        expected += [index % 4, index // 4, -(-int(size.prod()) // 4)]
        np.testing.assert_array_equal(out[z, y, x], expected)


def test_runs_repeat_bit_by_bit(library: Library) -> None:
    x, first, second = numbers(5000), np.zeros(5000, np.float32), np.zeros(5000, np.float32)
    for y in (first, second):
        library.launch("group_sum", {0: at(x), 1: at(y)}, threads=(5000,), group_size=(500,))
    assert first.tobytes() == second.tobytes()


def test_threads_may_launch_at_once(library: Library) -> None:
    def run(seed: int) -> bool:
        x = np.random.default_rng(seed).random(4096, dtype=np.float32)
        y = np.zeros_like(x)
        library.launch("group_sum", {0: at(x), 1: at(y)}, threads=(4096,), group_size=(256,))
        return bool(np.allclose(y[::256], x.reshape(16, 256).sum(1), rtol=1e-5))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(16)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_child_of_a_fork_can_launch(library: Library) -> None:
    x, y = numbers(4096), np.zeros(4096, np.float32)
    arguments = {0: at(x), 1: at(y)}
    library.launch("group_sum", arguments, threads=(4096,), group_size=(256,))
    child = os.fork()
    if child == 0:
        y[:] = 0
        library.launch("group_sum", arguments, threads=(4096,), group_size=(256,))
        os._exit(0 if np.allclose(y[::256], x.reshape(16, 256).sum(1), rtol=1e-5) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_barrier_in_a_branch_is_an_error(library: Library) -> None:
    y = np.zeros(64, np.int32)
    with pytest.raises(LaunchError, match=r"bad_barrier, group \(0, 0, 0\): its threads wait at different barriers"):
        library.launch("bad_barrier", {0: at(y)}, threads=(64,), group_size=(64,))
    x, z = numbers(64), np.zeros(64, np.float32)
    library.launch("group_sum", {0: at(x), 1: at(z)}, threads=(64,), group_size=(64,))
    assert z[0] == pytest.approx(x.sum(), rel=1e-5), "the next launch is not affected"


def test_too_much_stack_is_refused_where_threads_are_fibers() -> None:
    text = """#include "simt.hpp"
    static void greedy(int* y, simt::u32 i) {
      volatile int room[40000];
      for (int k = 0; k < 40000; k++) room[k] = k;
      WAIT;
      y[i] = room[i];
    }"""
    parameters = (Parameter("y", "buffer", 0, "int *"), Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid"))
    entry = Entry("greedy", "greedy", parameters)
    with pytest.raises(CompileError, match=r"stack frame size \(\d+\) exceeds limit"):
        build(Unit(text, (entry,), flags=("-DWAIT=simt::group_barrier()",)), ["greedy"])
    y = np.zeros(4, np.int32)
    build(Unit(text, (entry,), flags=("-DWAIT=",)), ["greedy"]).launch(
        "greedy", {0: at(y)}, threads=(4,), group_size=(4,)
    )
    assert list(y) == [0, 1, 2, 3]


def test_log(library: Library) -> None:
    assert library.launch("written", {}, threads=(4,), group_size=(4,)).log == "thread one\n"


@pytest.mark.skipif(sys.platform != "linux", reason="crashes are named on Linux")
def test_a_crash_names_the_kernel() -> None:
    program = (
        "import numpy as np\n"
        "from kernelwright.simt import Entry, Parameter, Unit, build\n"
        "unit = Unit('#include \"simt.hpp\"\\nstatic void wild(int* y, simt::u32 i) { *(int*)8 = 1; }',"
        "(Entry('wild', 'wild', (Parameter('y', 'buffer', 0, 'int *'), Parameter('i', 'builtin', 0, 'uint',"
        "builtin='thread_in_grid'))),))\n"
        "y = np.zeros(4, np.int32)\n"
        "build(unit, ['wild']).launch('wild', {0: (y.ctypes.data, 16)}, threads=(4,), group_size=(4,))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode < 0
    assert "kernel wild touched memory that is not its own" in done.stderr


@pytest.mark.skipif("-mavx512f" not in flags(arch(), features()), reason="registers 16 to 31 come with AVX-512")
def test_no_register_outlives_a_switch() -> None:
    text = f"""#include "simt.hpp"
    static __attribute__((noinline)) int meet(int v) {{ return simt::reduce<simt::Sum>(v); }}
    static void filled(int* y, simt::u32 i) {{
      asm volatile("{"".join(f"vpternlogd $255, %%zmm{n}, %%zmm{n}, %%zmm{n};" for n in range(16, 32))}"
                   ::: {", ".join(f'"xmm{n}"' for n in range(16, 32))});
      y[i] = meet(1);
    }}"""
    parameters = (Parameter("y", "buffer", 0, "int *"), Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid"))
    library = build(Unit(text, (Entry("filled", "filled", parameters),), flags=("-fgnu-inline-asm",)), ["filled"])
    y = np.zeros(4096, np.int32)
    library.launch("filled", {0: at(y)}, threads=(4096,), group_size=(1024,))
    assert (y == 32).all()


def test_waves_of_sixty_four(unit: Unit) -> None:
    library = build(replace(unit, simd_width=64), ["group_sum"])
    x, y = numbers(200), np.zeros(200, np.float32)
    report = library.launch("group_sum", {0: at(x), 1: at(y)}, threads=(200,), group_size=(128,))
    assert y[0] == pytest.approx(x[:128].sum(), rel=1e-5) and y[199] == pytest.approx(x[128:].sum(), rel=1e-5)
    assert report.exchanges == 4


def test_exp_within_two_units_in_the_last_place() -> None:
    text = (
        '#include "simt.hpp"\nstatic void e(const float* x, float* y, simt::u32 i) { y[i] = simt::math::exp(x[i]); }\n'
    )
    parameters = (Parameter("x", "buffer", 0, "float *"), Parameter("y", "buffer", 1, "float *"))
    at_i = Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid")
    library = build(Unit(text, (Entry("e", "e", (*parameters, at_i)),)), ["e"])
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 88.72, 88.73, 1e30, -87.4, -100.0, -104.0, -1e30]
    x = np.concatenate([np.linspace(-87, 88.7, 1_000_003), special]).astype(np.float32)
    y = np.zeros_like(x)
    library.launch("e", {0: at(x), 1: at(y)}, threads=(x.size,), group_size=(64,))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        exact = np.exp(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(rounded)), np.float32(1e-45))
    finite = np.isfinite(rounded)
    assert (np.abs(y[finite].astype(np.float64) - exact[finite]) <= 2 * unit[finite]).all()
    np.testing.assert_array_equal(y[~finite], rounded[~finite])
