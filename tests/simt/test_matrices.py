"""Products of matrices join where they may, and only there; what comes out is the same."""

import re
from pathlib import Path

import numpy as np
import pytest

from kernelwright.simt import Entry, Parameter, Unit, build, matrices

HEAD = "declare <2 x float> @simt_matrix_product(float, float, float, float, float, float)\n"


def product(result: str, a: str, c: str) -> str:
    values = ", ".join(f"float noundef {value}" for value in (a, a, "%b", "%b", c, c))
    return f"  {result} = tail call <2 x float> @simt_matrix_product({values})"


def module(*lines: str) -> str:
    parameters = "float %a, float %b, float %c, ptr %p"
    return HEAD + "\n".join([f"define void @kernel({parameters}) {{", "entry:", *lines, "  ret void", "}"]) + "\n"


def test_products_that_need_no_other_join() -> None:
    text = matrices.joined(module(product("%d", "%a", "%c"), product("%e", "%c", "%a")))
    assert "@simt_matrix_products(ptr %simt.products, ptr @simt.which.0, i32 2, i32 2, i32 1)" in text
    assert "@simt.which.0 = private unnamed_addr constant [4 x i8] [i8 0, i8 0, i8 1, i8 0]" in text
    assert "call <2 x float> @simt_matrix_product(" not in text
    assert "%d.0 = load float, ptr %simt.products.1.3.0" in text
    assert "%d = insertelement <2 x float> %d.half, float %d.1, i64 1" in text
    assert "alloca [10 x float]" in text


def test_a_product_of_a_product_waits_for_it() -> None:
    text = module(product("%d", "%a", "%c"), "  %x = extractelement <2 x float> %d, i64 0", product("%e", "%x", "%c"))
    joined = matrices.joined(text)
    assert re.findall(r"i32 \d+, i32 \d+, i32 \d+\)", joined) == ["i32 1, i32 1, i32 1)"] * 2


@pytest.mark.parametrize(
    "between", ["  store float %a, ptr %p", "  call void @simt_wait_group()", "  %u = load float, ptr %q"]
)
def test_only_loads_may_pass(between: str) -> None:
    text = matrices.joined(module(product("%d", "%a", "%c"), between, product("%e", "%c", "%a")))
    assert text.count("call void @simt_matrix_products(") == (1 if between.startswith("  %u = load") else 2)


def test_numbered_values_get_names() -> None:
    text = HEAD + "define void @kernel(float %0, float %b) {\n" + product("%2", "%0", "%0") + "\n"
    text += product("%3", "%b", "%0") + "\n  ret void\n}\n"
    joined = matrices.joined(text)
    assert "v1:\n  %simt.products = alloca" in joined
    assert "%v2.0 = load" in joined and "%v3.0 = load" in joined


def test_barriers_that_order_no_memory_go_where_nothing_is_written() -> None:
    idle, wait, load = "  call void @simt_wait_none()", "  call void @simt_wait_group()", "  %u = load float, ptr %p"
    two = (product("%d", "%a", "%c"), product("%e", "%c", "%a"))
    assert "simt_wait_none" not in matrices.joined(module(wait, idle, load, idle, *two))
    written = matrices.joined(module(wait, idle, "  store float %a, ptr %p", idle, *two))
    assert written.count("simt_wait_none()") == 2


TILES = """
#include "simt.hpp"
template <int M, int N>
static void tiles(const float* a, const float* b, float* c) {
  simt::Matrix<float> x[M], y[N], d[M][N];
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) d[i][j].fill(0);
  for (int k = 0; k < 64; k += 8) {
    simt::simd_barrier(0);
    for (int i = 0; i < M; i++) x[i].load(a + i * 8 * 64 + k, 64);
    for (int j = 0; j < N; j++) y[j].load(b + k * N * 8 + j * 8, N * 8);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) d[i][j] = simt::multiply_accumulate<float>(x[i], y[j], d[i][j]);
  }
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) d[i][j].store(c + i * 8 * N * 8 + j * 8, N * 8);
}
"""


def test_tiles_of_a_gemm_meet_once_a_step(tmp_path: Path) -> None:
    parameters = tuple(Parameter(name, "buffer", i, "float *") for i, name in enumerate("abc"))
    entry = Entry("tiles", "tiles<2, 3>", parameters)
    library = build(Unit(TILES, (entry,)), ["tiles"])
    random = np.random.default_rng(1)
    a, b = random.random((16, 64), np.float32), random.random((64, 24), np.float32)
    c = np.full((16, 24), np.nan, np.float32)
    arguments = {i: (array.ctypes.data, array.nbytes) for i, array in enumerate((a, b, c))}
    report = library.launch("tiles", arguments, threads=(32,), group_size=(32,))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5)
    assert report.exchanges is not None and report.exchanges <= 2 * 8, "six products a step would be 48"
