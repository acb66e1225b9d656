"""One unit that uses every construct of the interface; each host runs it."""

import pytest

from kernelwright.simt import BUILTINS, Entry, Parameter, Unit

TEXT = r"""
#include "simt.hpp"
using simt::u32;
using simt::u64;

static void scaled(const float* x, float* y, const float& factor, u32 i) { y[i] = x[i] * factor + 1; }

template <class T>
static void group_sum(const T* x, T* y, u32 i, u32 lane, u32 simd, u32 simds) {
  SIMT_GROUP T part[32];
  T sum = simt::reduce<simt::Sum>(x[i]);
  if (lane == 0) part[simd] = sum;
  simt::group_barrier();
  T all = 0;
  for (u32 s = 0; s < simds; s++) all += part[s];
  y[i] = all;
}

static void transposed(const float* x, float* y, float* tile, simt::Position at, simt::Position in,
                       simt::Position group, simt::Position grid) {
  tile[in.y * 17 + in.x] = x[at.y * grid.x + at.x];
  simt::group_barrier();
  y[(group.x * 16 + in.y) * grid.y + group.y * 16 + in.x] = tile[in.x * 17 + in.y];
}

static void divided(const int* x, int* y, u32 i, u32 lane) {
  int r = 0;
  if (lane % 3 == 0)
    r = simt::reduce<simt::Sum>(x[i]);
  else if (lane % 3 == 1)
    r = simt::reduce<simt::Max>(x[i]);
  else
    r = simt::scan_exclusive<simt::Sum>(x[i], -1);
  y[i] = r + 1000 * simt::broadcast_first(x[i]);
}

// Lanes leave a loop one after the other and meet behind it.
static void leaving(const u32* x, u32* y, u32 i, u32 lane) {
  u32 turns = 0;
  for (u32 n = x[i]; n > 0; n--) turns += __builtin_popcountl(simt::ballot(true));
  y[i] = turns * 100 + __builtin_popcountl(simt::active_lanes());
}

static void lanes(const float* x, float* y, u32 i, u32 n) {
  float v = x[i];
  y[0 * n + i] = simt::shuffle(v, 5);
  y[1 * n + i] = simt::shuffle_xor(v, 3);
  y[2 * n + i] = simt::shuffle_up(v, 4);
  y[3 * n + i] = simt::shuffle_down(v, 4);
  y[4 * n + i] = simt::rotate_up(v, 1);
  y[5 * n + i] = simt::rotate_down(v, 1);
  y[6 * n + i] = simt::shuffle_fill_up(v, -v, 3);
  y[7 * n + i] = simt::shuffle_fill_down(v, -v, 3);
  y[8 * n + i] = simt::scan_inclusive<simt::Sum>(v);
  y[9 * n + i] = simt::scan_exclusive<simt::Product>(v, 1.0f);
  y[10 * n + i] = simt::reduce<simt::Min>(v);
  y[11 * n + i] = simt::quad_reduce<simt::Sum>(v);
  y[12 * n + i] = simt::quad_shuffle_down(v, 1);
  y[13 * n + i] = simt::quad_scan_exclusive<simt::Sum>(v, 0.0f);
  y[14 * n + i] = float(simt::quad_ballot(v > 0.5f));
  y[15 * n + i] = simt::quad_rotate_up(v, 1);
}

static void early(const int* x, int* y, u32 i, u32 n, u32 in) {
  SIMT_GROUP int shared[64];
  if (in >= 40) return;
  shared[in] = x[i];
  simt::group_barrier();
  y[i] = shared[39 - in];
}

static void counts(u32* bins, u64* most, float* sum, const u32* x, u32 i) {
  simt::atomic_fetch_add(&bins[x[i] % 8], 1);
  simt::atomic_fetch_max(most, u64(x[i]) << 20);
  simt::atomic_fetch_add(sum, 0.5f);
}

static void wide(const simt::u64* x, simt::u64* y, u32 i) {
  struct Four {
    u64 a, b, c, d;
  };
  Four v = simt::shuffle_xor(Four{x[i], x[i] + 1, x[i] + 2, x[i] + 3}, 1);
  y[i] = v.a + v.b + v.c + v.d;
}

static void product(const simt::f16* a, const float* b, float* c, u32 k) {
  simt::Matrix<simt::f16> x;
  simt::Matrix<float> y, sum, twice;
  sum.fill(0);
  twice.diagonal(2);
  for (u32 i = 0; i < 4; i++) {
    x.load(a + i * 8, 32);
    y.load(b + i * 8, 32, true);
    sum = simt::multiply_accumulate<float>(x, y, sum);
  }
  simt::multiply_accumulate<float>(sum, twice, sum).store(c, 8);
}

static void bad_barrier(int* y, u32 i) {
  if (i % 2) {
    y[i] = 1;
    simt::group_barrier();
  } else {
    simt::group_barrier();
    y[i] = 2;
  }
}

static void written(u32 i) {
  simt::group_barrier();
  if (i == 1) simt::log("thread one\n", 11);
}

"""


def buffer(index: int) -> Parameter:
    return Parameter(f"b{index}", "buffer", index, "float *")


def memory(index: int) -> Parameter:
    return Parameter(f"m{index}", "group_memory", index, "float *")


def builtin(name: str) -> Parameter:
    return Parameter(name, "builtin", 0, "uint", builtin=name)


def every_builtin() -> tuple[str, Entry]:
    """An entry that writes all builtins of its thread."""
    three = BUILTINS[:8]
    parameters = ", ".join(f"{'simt::Position' if name in three else 'u32'} {name}" for name in BUILTINS)
    place = "(thread_in_grid.z * grid_size.y + thread_in_grid.y) * grid_size.x + thread_in_grid.x"
    writes = " ".join(f"*y++ = {name}.x; *y++ = {name}.y; *y++ = {name}.z;" for name in three)
    writes += " ".join(f"*y++ = {name};" for name in BUILTINS[8:])
    text = f"static void where(u32* out, {parameters}) {{ u32* y = out + ({place}) * 33; {writes} }}"
    same = text.replace("void where(", "void where_waiting(").replace("{ u32* y", "{ simt::simd_barrier(); u32* y")
    return text + "\n" + same, Entry("where", "where", (buffer(0), *map(builtin, BUILTINS)))


WHERE_TEXT, WHERE = every_builtin()
ENTRIES = (
    Entry("scaled", "scaled", (buffer(0), buffer(1), buffer(2), builtin("thread_in_grid"))),
    Entry(
        "group_sum",
        "group_sum<float>",
        (buffer(0), buffer(1), *map(builtin, ("thread_in_grid", "lane", "simd_index", "simd_count"))),
    ),
    Entry(
        "transposed",
        "transposed",
        (
            buffer(0),
            buffer(1),
            memory(2),
            *map(builtin, ("thread_in_grid", "thread_in_group", "group_in_grid", "grid_size")),
        ),
    ),
    Entry("divided", "divided", (buffer(0), buffer(1), builtin("thread_in_grid"), builtin("lane"))),
    Entry("leaving", "leaving", (buffer(0), buffer(1), builtin("thread_in_grid"), builtin("lane"))),
    Entry("lanes", "lanes", (buffer(0), buffer(1), builtin("thread_in_grid"), builtin("grid_size"))),
    Entry("early", "early", (buffer(0), buffer(1), *map(builtin, ("thread_in_grid", "grid_size", "thread_in_group")))),
    Entry("counts", "counts", (buffer(0), buffer(1), buffer(2), buffer(3), builtin("thread_in_grid"))),
    Entry("wide", "wide", (buffer(0), buffer(1), builtin("thread_in_grid"))),
    Entry("product", "product", (buffer(0), buffer(1), buffer(2), builtin("lane"))),
    Entry("bad_barrier", "bad_barrier", (buffer(0), builtin("thread_in_grid"))),
    Entry("written", "written", (builtin("thread_in_grid"),)),
    WHERE,
    Entry("where_waiting", "where_waiting", WHERE.parameters),
)


@pytest.fixture(scope="session")
def unit() -> Unit:
    return Unit(TEXT + WHERE_TEXT, ENTRIES)
