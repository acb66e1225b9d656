"""The product template against float64: sizes around its tiles and blocks, any strides, batches, bands, NaN."""

import math

import pytest
import torch
from torch import Tensor

import kernelwright
from kernelwright.loops import Filled, ScalarType, filled_template, print_filled

NAMES = ("batch", "rows", "columns", "inner", "ao", "ab", "ar", "ac", "bo", "bb", "br", "bc", "low", "high")
CALLS = {
    torch.float32: Filled("gemm", "gemm::run<float>", (ScalarType.FLOAT32,), (ScalarType.FLOAT32,) * 2, NAMES),
    torch.float64: Filled("gemm", "gemm::run<double>", (ScalarType.FLOAT64,), (ScalarType.FLOAT64,) * 2, NAMES),
}


@pytest.fixture(scope="module")
def multiply():
    text = filled_template("gemm")
    for dtype, call in CALLS.items():
        text += print_filled(Filled(**(call.__dict__ | {"name": str(dtype).removeprefix("torch.")})))
    library = kernelwright.compile(text, language="cpp")

    def product(a: Tensor, b: Tensor, low: int | None = None, high: int | None = None) -> Tensor:
        """a: (batch, rows, inner), b: (batch, inner, columns), views of contiguous memory."""
        (batch, rows, inner), columns = a.shape, b.shape[2]
        out = torch.full((batch * rows * columns + 1,), math.nan, dtype=a.dtype)
        kernel = getattr(library, str(a.dtype).removeprefix("torch."))
        band = (-rows if low is None else low, columns if high is None else high)
        places = (a.storage_offset(), *a.stride(), b.storage_offset(), *b.stride())
        kernel(out, memory(a), memory(b), batch, rows, columns, inner, *places, *band)
        assert out[-1].isnan()
        return out[:-1].view(batch, rows, columns)

    return product


def memory(view: Tensor) -> Tensor:
    """All that the view's storage holds."""
    return view.as_strided((view.untyped_storage().nbytes() // view.element_size(),), (1,), 0)


def drawn(batch: int, rows: int, columns: int, how: str, dtype: torch.dtype) -> Tensor:
    match how:
        case "rows":
            return torch.randn(batch, rows, columns, dtype=dtype)
        case "columns":
            return torch.randn(batch, columns, rows, dtype=dtype).transpose(1, 2)
        case _:
            return torch.randn(batch, 2 * rows + 1, 2 * columns + 1, dtype=dtype)[:, 1::2, 1::2]


SIZES = [
    (1, 1, 1, 1),
    (2, 13, 33, 300),
    (3, 24, 64, 128),
    (1, 50, 100, 1000),
    (1, 300, 400, 600),
    (5, 7, 17, 5),
    (2, 1, 70, 9000),
    (1, 3, 1100, 70),
    (1, 200, 1, 55),
    (1, 200, 2, 9000),
    (1, 4, 5, 8200),
    (2, 40, 40, 0),
]


@pytest.mark.parametrize("dtype", list(CALLS), ids=["float", "double"])
@pytest.mark.parametrize("batch, rows, columns, inner", SIZES)
def test_sizes_and_strides(multiply, batch: int, rows: int, columns: int, inner: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for left in ("rows", "columns", "every other"):
        for right in ("rows", "columns", "every other"):
            a, b = drawn(batch, rows, inner, left, dtype), drawn(batch, inner, columns, right, dtype)
            for low, high in [(None, None), (0, None), (None, -3), (-2, 5)]:
                want = a.double() @ b.double()
                want = want if low is None else want.triu(low)
                want = want if high is None else want.tril(high)
                error = (multiply(a, b, low, high) - want).abs().max()
                assert error <= 256 * torch.finfo(dtype).eps * (inner + 1) ** 0.5, (left, right, low, high)


@pytest.mark.parametrize("rows, columns", [(50, 70), (2, 90), (90, 2), (1, 90)])
def test_nan_and_infinity_stay_in_their_row_and_column(multiply, rows: int, columns: int) -> None:
    a, b = torch.ones(1, rows, 80), torch.ones(1, 80, columns)
    a[0, -1, 3], b[0, 5, -1], b[0, 79, 0] = math.nan, math.inf, -math.inf
    want = a @ b
    for turned in (False, True):
        x, y = (a.mT.contiguous().mT, b.mT.contiguous().mT) if turned else (a, b)
        assert torch.equal(multiply(x, y).nan_to_num(7, 8, 9), want.nan_to_num(7, 8, 9))
        assert torch.equal(multiply(x, y, 1).nan_to_num(7, 8, 9), want.triu(1).nan_to_num(7, 8, 9))


def test_one_matrix_for_a_batch(multiply) -> None:
    a, b = torch.randn(3, 20, 30), torch.randn(30, 40).expand(3, 30, 40)
    torch.testing.assert_close(multiply(a, b), a @ b)


def test_long_sums_stay_exact(multiply) -> None:
    a, b = torch.rand(1, 13, 200_000), torch.rand(1, 200_000, 5)
    want = a.double() @ b.double()
    for x, y in [(a, b), (a[:, :1], b), (a, b[:, :, :1])]:
        exact = want[:, : x.shape[1], : y.shape[2]]
        assert ((multiply(x, y) - exact) / exact).abs().max() < 2e-6
