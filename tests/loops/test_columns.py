"""Rows across memory, passed over in bands, give what the plain nest gives; long sums lose no more than torch's."""

import math

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    Apply,
    Fusion,
    Kernel,
    Op,
    Operand,
    Plan,
    Reduction,
    Result,
    ScalarType,
    Size,
    Step,
    Variable,
    by_columns,
    by_parts,
    nest,
    print_cpp,
    scheduled,
)

TORCH = {
    ScalarType.FLOAT32: torch.float32,
    ScalarType.FLOAT64: torch.float64,
    ScalarType.BFLOAT16: torch.bfloat16,
}


def shares(outer: Size, width: Size, length: int, type: ScalarType = ScalarType.FLOAT32) -> Fusion:
    """weight * x / sum(x), and the sum and the largest of x, over the middle dimension of x: (outer, length, width)."""
    t = type.compute
    x, weight, total = Variable("x", t), Variable("weight", t), Variable("total", t)
    step = width * length if isinstance(width, int) else "step"
    return Fusion(
        "shares",
        (outer, width, length),
        1,
        (Operand("x", type, (step, 1, width)), Operand("weight", type, (0, 0, 1))),
        (
            Step("total", x, Reduction.SUM),
            Step("best", x, Reduction.MAXIMUM),
            Step("out", Apply(Op.DIV, (Apply(Op.MUL, (x, weight)), total))),
        ),
        (
            Result("out0", type, "out", (step, 1, width)),
            Result("out1", type, "total", (width, 1), row=True),
            Result("out2", type, "best", (width, 1), row=True),
        ),
        tuple(size for size in (outer, width, step) if isinstance(size, str)),
    )


def run(kernel: Kernel, x: torch.Tensor, weight: torch.Tensor, *sizes: int) -> tuple[torch.Tensor, ...]:
    library = kernelwright.compile(print_cpp(kernel), language="cpp")
    out, total, best = torch.full_like(x, 7), x.new_full((len(x), x.shape[2]), 7), x.new_full((len(x), x.shape[2]), 7)
    library.shares(out, total, best, x, weight, *sizes)
    return out, total, best


@pytest.mark.parametrize("type", TORCH, ids=lambda type: type.value)
@pytest.mark.parametrize("shape", [(1, 1, 16), (2, 65, 33), (3, 130, 257), (1, 300, 1000)], ids=str)
def test_rows_in_bands(shape: tuple[int, int, int], type: ScalarType) -> None:
    torch.manual_seed(0)
    outer, length, width = shape
    x, weight = torch.rand(shape).to(TORCH[type]) + 0.5, torch.randn(length).to(TORCH[type])
    x[0, 0, 3] = math.nan
    x[-1, 0, 5] = math.inf
    kernel = nest(shares(outer, width, length, type))
    assert by_columns(kernel) != kernel
    exact = x.double()
    tolerance = (length if type is ScalarType.FLOAT64 else 8) * torch.finfo(x.dtype).eps
    for plan in (Plan(), Plan(interleave=1, keep_from=1, grain_elements=1)):
        out, total, best = run(scheduled(kernel, plan), x, weight)
        expected = exact * weight.double()[:, None] / exact.sum(1, keepdim=True)
        torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=0, equal_nan=True)
        torch.testing.assert_close(total.double(), exact.sum(1), rtol=tolerance, atol=0, equal_nan=True)
        torch.testing.assert_close(best.double(), exact.amax(1), rtol=0, atol=0, equal_nan=True)


def test_sizes_known_at_the_call() -> None:
    kernel = nest(shares("outer", "width", 40))
    assert by_columns(kernel) != kernel
    for outer, width in ((2, 3), (1, 300)):
        x, weight = torch.rand(outer, 40, width) + 0.5, torch.randn(40)
        out, total, best = run(scheduled(kernel, Plan()), x, weight, outer, width, 40 * width)
        torch.testing.assert_close(out, x * weight[:, None] / x.sum(1, keepdim=True))
        torch.testing.assert_close(total, x.sum(1))
        assert torch.equal(best, x.amax(1))


def test_rows_too_long_for_the_cache_are_read_again() -> None:
    torch.manual_seed(0)
    kernel = nest(shares(1, 50, 5000))
    assert by_columns(kernel) == kernel
    assert by_columns(kernel, spilling=True) != kernel
    x, weight = torch.rand(1, 5000, 50) + 0.5, torch.randn(5000)
    for keep_row in (True, False):
        made = scheduled(kernel, Plan(keep_row=keep_row))
        assert "total_column" in print_cpp(made)
        out, total, best = run(made, x, weight)
        torch.testing.assert_close(out, x * weight[:, None] / x.sum(1, keepdim=True))
        torch.testing.assert_close(total, x.sum(1))
        assert torch.equal(best, x.amax(1))


def test_narrow_rows_and_rows_along_memory_stay_as_they_are() -> None:
    for kernel in (nest(shares(4, 15, 64)), nest(shares(4, 64, 1 << 20))):
        assert by_columns(kernel) == kernel


def reduced(outer: int, length: int, width: int, type: ScalarType) -> Fusion:
    """The sum of weight * x and the least of x over the middle dimension of x: (outer, length, width)."""
    t = type.compute
    x, weight = Variable("x", t), Variable("weight", t)
    return Fusion(
        "reduced",
        (outer, width, length),
        1,
        (Operand("x", type, (width * length, 1, width)), Operand("weight", type, (0, 0, 1))),
        (
            Step("total", Apply(Op.MUL, (x, weight)), Reduction.SUM),
            Step("least", x, Reduction.MINIMUM),
            Step("gap", Apply(Op.SUB, (Variable("total", t), Variable("least", t)))),
        ),
        (
            Result("out0", type, "gap", (width, 1), row=True),
            Result("out1", type, "least", (width, 1), row=True),
        ),
    )


@pytest.mark.parametrize("type", TORCH, ids=lambda type: type.value)
@pytest.mark.parametrize("shape", [(1, 128, 16), (1, 1033, 777), (3, 131, 50), (1, 515, 1100), (2, 200, 1030)], ids=str)
def test_few_rows_in_parts(shape: tuple[int, int, int], type: ScalarType) -> None:
    torch.manual_seed(0)
    outer, length, width = shape
    x, weight = torch.rand(shape).to(TORCH[type]) + 0.5, torch.rand(length).to(TORCH[type])
    x[0, 7, 3], x[-1, -1, 5], x[0, -1, 7] = math.nan, math.inf, -math.inf
    kernel = nest(reduced(outer, length, width, type))
    assert by_parts(kernel, 1) != kernel
    exact = x.double()
    least, total = exact.amin(1), (exact * weight.double()[:, None]).sum(1)
    tolerance = (length if type is ScalarType.FLOAT64 else 8) * torch.finfo(x.dtype).eps
    for plan in (Plan(), Plan(interleave=1, grain_elements=1)):
        library = kernelwright.compile(print_cpp(scheduled(kernel, plan)), language="cpp")
        gap, small = torch.full((outer, width), 7.0, dtype=x.dtype), torch.full((outer, width), 7.0, dtype=x.dtype)
        library.reduced(gap, small, x, weight)
        torch.testing.assert_close(gap.double(), total - least, rtol=tolerance, atol=0, equal_nan=True)
        torch.testing.assert_close(small.double(), least, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 120, 777), (9, 500, 64), (1, 500, 15), (1, 500, 9000)], ids=str)
def test_short_rows_and_rows_enough_are_not_cut(shape: tuple[int, int, int]) -> None:
    kernel = nest(reduced(*shape, ScalarType.FLOAT32))
    assert by_parts(kernel, 1) == kernel
    for several in (nest(shares(1, 50, 5000)), nest(shares("outer", "width", 400))):
        assert by_parts(several, 1) == several


@pytest.mark.parametrize(("shape", "strides"), [((300_001, 16), (1, 16)), ((16, 300_001), (300_001, 1))], ids=str)
def test_long_sums_are_as_exact_as_those_of_torch(shape: tuple[int, int], strides: tuple[int, int]) -> None:
    """Of positive numbers, whose partial sums grow: over the first dimension and over the last."""
    torch.manual_seed(0)
    x = torch.rand(shape)
    total = Step("total", Variable("x", ScalarType.FLOAT32), Reduction.SUM)
    operand = Operand("x", ScalarType.FLOAT32, strides)
    result = Result("out0", ScalarType.FLOAT32, "total", (1,), row=True)
    fusion = Fusion("summed", (16, 300_001), 1, (operand,), (total,), (result,))
    library = kernelwright.compile(print_cpp(scheduled(nest(fusion), Plan())), language="cpp")
    out, dim = torch.zeros(16), shape.index(300_001)
    library.summed(out, x)
    exact = x.double().sum(dim)
    own = (x.sum(dim).double() - exact).abs().max()
    assert (out.double() - exact).abs().max() <= 1.5 * own
