"""The linear template against float64: sizes around its tiles and panels, weights either way round, NaN."""

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    LINEAR_TEMPLATE,
    SUM,
    Apply,
    Epilogue,
    Let,
    Linear,
    Op,
    PackedWeight,
    Read,
    ScalarType,
    Variable,
    filled_template,
    packed_elements,
    print_linear,
    print_packed_weight,
)

FLOAT = ScalarType.FLOAT32
SIZES = [
    (1, 1, 1),
    (6, 8, 16),
    (13, 255, 33),
    (48, 256, 64),
    (49, 257, 65),
    (100, 600, 31),
    (300, 64, 130),
    (97, 8000, 35),
]
READS = ("row", "column", "index", "0")


def followed() -> Linear:
    """exp(sum * r0[row] + r1[column]) - r2[index] * r3[0]."""
    rows, columns, every, one = (Variable(f"r{number}", FLOAT) for number in range(4))
    grown = Apply(Op.EXP, (Apply(Op.ADD, (Apply(Op.MUL, (SUM, rows)), columns)),))
    step = Let(Variable("v0", FLOAT), grown)
    result = Apply(Op.SUB, (step.variable, Apply(Op.MUL, (every, one))))
    reads = tuple(Read(f"r{number}", FLOAT, along) for number, along in enumerate(READS))
    return Linear(Epilogue(reads, (step,), result), name="followed")


def library():
    printed = [*map(print_linear, [Linear(name="linear"), followed()])]
    printed += map(print_packed_weight, [PackedWeight(True, "pack_both"), PackedWeight(False, "pack")])
    text = filled_template(LINEAR_TEMPLATE) + "".join(printed)
    return kernelwright.compile(text, language="cpp")


def mapped(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transposed: bool = True, after: tuple = ()
) -> torch.Tensor:
    """The kernel's result; `transposed`: the weight holds a row for each column of the result, as nn.Linear's;
    `after`: what `followed` reads."""
    lib = library()
    columns, inner = weight.shape if transposed else weight.shape[::-1]
    packed = torch.full((packed_elements(columns, inner),), torch.nan)
    steps = (inner, 1) if transposed else (1, columns)
    if bias is None:
        lib.pack(packed, weight, columns, inner, *steps)
    else:
        lib.pack_both(packed, weight, bias, columns, inner, *steps)
    out = torch.full((x.shape[0] + 1, columns), torch.nan)  # a row more, that must stay untouched
    kernel = lib.followed if after else lib.linear
    kernel(out, x, *after, packed, x.shape[0], columns, inner)
    assert out[-1].isnan().all()
    return out[:-1]


@pytest.mark.parametrize("transposed", [True, False], ids=["columns", "components"])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("rows, inner, columns", SIZES)
def test_sizes(rows: int, inner: int, columns: int, biased: bool, transposed: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    bias = torch.randn(columns) if biased else None
    want = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    got = mapped(x, weight if transposed else weight.t().contiguous(), bias, transposed)
    assert (got - want).abs().max() <= 1e-6 * inner**0.5 * 4


@pytest.mark.parametrize("rows, inner, columns", SIZES)
def test_what_becomes_of_the_sums(rows: int, inner: int, columns: int) -> None:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(rows, inner), torch.randn(columns, inner) / inner**0.5, torch.randn(columns)
    after = (torch.rand(rows), torch.randn(columns), torch.randn(rows, columns), torch.randn(1))
    got = mapped(x, weight, bias, after=after)
    scale, shift, every, one = (item.double() for item in after)
    sums = torch.nn.functional.linear(x.double(), weight.double(), bias.double())
    want = torch.exp(sums * scale[:, None] + shift) - every * one
    assert ((got - want).abs() <= 2e-5 * (1 + want.abs())).all()


def test_nothing_is_summed_up() -> None:
    assert torch.equal(mapped(torch.empty(5, 0), torch.empty(3, 0), torch.arange(3.0)), torch.arange(3.0).repeat(5, 1))


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    x, weight = torch.ones(20, 40), torch.ones(50, 40)
    x[7, 3], weight[11, 5], weight[49, 0] = torch.nan, torch.inf, torch.nan
    got, want = mapped(x, weight, None), x @ weight.t()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
