"""An entry cut where it waits gives what its fibers give, bit by bit; what can't be cut stays with fibers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernelwright.simt import Entry, Library, Parameter, Unit, build, compiling, regions
from kernelwright.simt.control_flow import blocks, in_order, line

TEXT = r"""
#include "simt.hpp"
using simt::u32;

// Values, flags and an array live across waits; a value of the loop is read behind a wait and written before it.
static void kept(const float* x, float* y, u32 i, u32 lane) {
  float own[8], last = x[i], total = 0;
  bool odd = lane & 1;
  for (u32 k = 0; k < 8; k++) own[k] = x[i] * k;
  for (u32 k = 0; k < 12; k++) {
    float sum = simt::reduce<simt::Sum>(odd ? last : own[k & 7]);
    own[(k + lane) & 7] += sum;
    total += last;
    last = sum * 0.125f;
    odd = last > total ? !odd : odd;
    if (k % 3 == 0) simt::group_barrier();
  }
  for (u32 k = 0; k < 8; k++) total += own[(lane + k) & 7];
  y[i] = total + odd;
}

// Each lane takes its own way through two loops, one in the other, and meets others where it can.
static void ways(const float* x, float* y, u32 i, u32 lane) {
  float v = x[i];
  u32 met = 0;
  for (u32 k = 0; k < lane % 5 + 1; k++) {
    for (u32 j = 0; j < (lane + k) % 3; j++) {
      met = met * 3 + __builtin_popcountl(simt::ballot(v > 0.5f));
      v = simt::shuffle_xor(v, j + 1) + 0.25f;
      if (met % 7 == 3) break;
    }
    if (met % 11 == 5) continue;
    met += u32(simt::reduce<simt::Max>(lane));
  }
  y[i] = v + met + __builtin_popcountl(simt::active_lanes());
}

// Half a SIMD group ends early; the rest has barriers ahead.
static void ending(const float* x, float* y, u32 i, u32 lane) {
  SIMT_GROUP float shared[1024];
  y[i] = -1;
  if (x[i] < 0.5f) return;
  shared[i % 256] = x[i];
  simt::group_barrier();
  float sum = simt::reduce<simt::Sum>(x[i]);
  simt::group_barrier();
  y[i] = sum + shared[i % 256] + lane;
}

// More waits than loops over lanes are made for.
static void many(const float* x, float* y, u32 i, u32 lane) {
  float v = x[i];
#pragma clang loop unroll(full)
  for (u32 k = 0; k < 60; k++) v = simt::shuffle_down(v, k % 5) * 0.5f + x[(i + k) % 32];
  y[i] = v + lane;
}

// Loops without waits: all lanes take as many turns; each its own number; some take none; some leave early.
static void turns(const float* x, float* y, u32 i, u32 lane) {
  float most = simt::reduce<simt::Max>(x[i]), sum = 0;
  for (u32 k = 0; k < 200; k++) {
    float v = x[(i * 4 + k * 7) % 40], before = most;
    most = v > most ? v : most;
    sum = sum * (before - most + 1) + v;
  }
  sum = simt::reduce<simt::Sum>(sum);
  for (u32 k = 0; k < lane % 7 + 3; k++) {
    float v = x[(lane + k * 3) % 40];
    sum = v > 0.5f ? sum * 0.75f + v : sum - v * 0.125f;
    most = most > v ? most - v * 0.5f : v;
  }
  if (x[i] > 0.3f)
    for (u32 k = 0; k < 90; k++) {
      float v = x[(k * 5 + 1) % 40];
      sum += v * most;
      most = most * 0.5f + v;
      if (sum > 30 + x[i] * 10) break;
    }
  y[i] = simt::reduce<simt::Sum>(sum) + most;
}

// From lane 39 on nobody is there when 40 threads run.
static void beyond(const float* x, float* y, u32 i, u32) { y[i] = simt::shuffle_down(x[i], 1); }

static __attribute__((noinline)) float apart(float v) { return simt::reduce<simt::Sum>(v); }
static void calls(const float* x, float* y, u32 i, u32 lane) { y[i] = apart(x[i]) + lane; }
"""
PARAMETERS = (
    Parameter("x", "buffer", 0, "float *"),
    Parameter("y", "buffer", 1, "float *"),
    Parameter("i", "builtin", 0, "u32", builtin="thread_in_grid"),
    Parameter("lane", "builtin", 0, "u32", builtin="lane"),
)
NAMES = ("kept", "ways", "ending", "many", "turns", "calls", "beyond")
UNIT = Unit(TEXT, tuple(Entry(name, name, PARAMETERS) for name in NAMES))


@pytest.fixture(scope="module")
def cut() -> Library:
    return build(UNIT, NAMES)


@pytest.fixture(scope="module")
def fibers(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The same entries, none of them cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_HOME", str(tmp_path_factory.mktemp("fibers")))
        patch.setattr(compiling.regions, "cut", lambda text, indices, width: (text, set()))
        return build(UNIT, NAMES)


@pytest.mark.parametrize("name", NAMES[:5])
@pytest.mark.parametrize("threads", [64, 1000, 40])
def test_the_same_bits_as_fibers(cut: Library, fibers: Library, name: str, threads: int) -> None:
    x = np.random.default_rng(5).random(threads, dtype=np.float32)
    results = []
    for library, mode in ((cut, "regions"), (fibers, "fiber")):
        y = np.zeros_like(x)
        arguments = {0: (x.ctypes.data, x.nbytes), 1: (y.ctypes.data, y.nbytes)}
        report = library.launch(name, arguments, threads=(threads,), group_size=(256,))
        assert report.mode == mode
        results.append((y.tobytes(), report.barriers, report.exchanges))
    assert results[0] == results[1]


def test_loops_without_waits_are_run_turn_by_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def cut(text: str, indices: Iterable[int], width: int) -> tuple[str, set[int]]:
        made, done = regions.cut(text, indices, width)
        texts.append(made)
        return made, done

    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(compiling, "regions", SimpleNamespace(cut=cut))
    build(UNIT, ["turns"])
    build(UNIT, ["kept"])
    assert texts[0].count("define internal i16 @simt.turn.") >= 6, "from each of three loops, and into them"
    assert "@simt.turn." not in texts[1], "its loop has waits"


@pytest.mark.parametrize("way", ["cut", "fibers"])
def test_a_lane_that_is_not_there_gives_nothing(request: pytest.FixtureRequest, way: str) -> None:
    library: Library = request.getfixturevalue(way)
    for threads in (4096, 40):  # the first leaves something in every slot of every worker
        x = np.arange(threads, dtype=np.float32)
        y = np.zeros_like(x)
        arguments = {0: (x.ctypes.data, x.nbytes), 1: (y.ctypes.data, y.nbytes)}
        library.launch("beyond", arguments, threads=(threads,), group_size=(64,))
        last = (np.arange(threads) % 32 == 31) | (x == threads - 1)
        np.testing.assert_array_equal(y, np.where(last, x, x + 1))


@pytest.mark.parametrize("watched", [False, True])
def test_branches_meet_before_what_they_lead_to(
    unit: Unit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    monkeypatch.setattr(compiling.regions, "cut", lambda text, indices, width: (text, set()))
    entry = next(entry for entry in unit.entries if entry.name == "divided")
    written = tuple(replace(parameter, writable=parameter.index == 1) for parameter in entry.parameters)
    library = build(replace(unit, entries=(replace(entry, parameters=written),)), ["divided"], check=watched)
    x = np.random.default_rng(2).integers(0, 100, 96, dtype=np.int32)
    y = np.zeros_like(x)
    arguments = {0: (x.ctypes.data, x.nbytes), 1: (y.ctypes.data, y.nbytes)}
    assert library.launch("divided", arguments, threads=(96,), group_size=(96,)).mode == "fiber"
    for start in range(0, 96, 32):
        assert (y[start : start + 32 : 3] == x[start : start + 32 : 3].sum() + 1000 * x[start]).all()


def test_a_wait_in_a_function_of_its_own_keeps_its_fibers(cut: Library) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    arguments = {0: (x.ctypes.data, x.nbytes), 1: (y.ctypes.data, y.nbytes)}
    assert cut.launch("calls", arguments, threads=(64,), group_size=(64,)).mode == "fiber"
    np.testing.assert_array_equal(y, np.repeat([496, 1520], 32) + np.arange(64) % 32)


def test_what_waits_behind_a_loop_comes_after_it() -> None:
    ways: dict[int, Sequence[int]] = {0: [1], 1: [4, 2], 2: [3, 1], 3: [2, 5], 4: [6], 5: [1], 6: []}
    order = in_order(ways, 0)
    assert sorted(order) == list(range(7))
    assert order.index(1) == 1 and order[-2:] == [4, 6]


def test_blocks_are_read(tmp_path: Path) -> None:
    text = """define void @f(ptr %0, i32 %1) #0 {
  switch i32 %1, label %5 [
    i32 1, label %3
    i32 2, label %5
  ]

3:                                                ; preds = %2
  %4 = load { i32, <2 x float> }, ptr %0, align 8
  br label %5

5:                                                ; preds = %2, %2, %3
  %6 = phi i32 [ 1, %2 ], [ 1, %2 ], [ 0, %3 ]
  ret void
}"""
    found = blocks(text.splitlines())
    assert [block.label for block in found] == ["%v2", "%v3", "%v5"]
    assert [block.following for block in found] == [["%v5", "%v3"], ["%v5"], []]
    assert found[1].lines[0].type == "{ i32, <2 x float> }" and found[2].lines[0].incoming[2] == ("0", "%v3")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("%a = tail call contract noundef range(i32 0, 33) i32 @f(i32 1) #3", "i32"),
        ("%a = load atomic i64, ptr %p monotonic, align 8", "i64"),
        ("%a = fcmp contract ogt <4 x float> %x, %y", "<4 x i1>"),
        ("%a = select contract i1 %c, <2 x float> %x, <2 x float> %y", "<2 x float>"),
        ("%a = zext nneg i32 %x to i64", "i64"),
        ("%a = shufflevector <2 x float> %x, <2 x float> poison, <8 x i32> zeroinitializer", "<8 x float>"),
        ("%a = extractelement <2 x half> %x, i64 1", "half"),
        ("%a = extractvalue { i32, i1 } %x, 1", "i1"),
        ("%a = cmpxchg ptr %p, i32 %x, i32 %y seq_cst seq_cst, align 4", "{ i32, i1 }"),
        ("%a = atomicrmw volatile add ptr %p, i32 1 monotonic, align 4", "i32"),
        ("%a = phi contract [2 x float] [ %x, %b ], [ %y, %c ]", "[2 x float]"),
        ('%a = getelementptr inbounds nuw %"struct.A B", ptr %p, i64 0, i32 1', "ptr"),
    ],
)
def test_types_of_results(text: str, kind: str) -> None:
    assert line(text).type == kind
