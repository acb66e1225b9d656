"""The linear template against float64: sizes around its tiles and panels, weights either way round, NaN."""

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    LINEAR_TEMPLATE,
    Linear,
    PackedWeight,
    filled_template,
    packed_elements,
    print_linear,
    print_packed_weight,
)


def library():
    packers = [PackedWeight(True, "pack_both"), PackedWeight(False, "pack")]
    text = (
        filled_template(LINEAR_TEMPLATE) + print_linear(Linear("linear")) + "".join(map(print_packed_weight, packers))
    )
    return kernelwright.compile(text, language="cpp")


def mapped(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transposed: bool = True) -> torch.Tensor:
    """The kernel's result; `transposed`: the weight holds a row for each column of the result, as nn.Linear's."""
    lib = library()
    columns, inner = weight.shape if transposed else weight.shape[::-1]
    packed = torch.full((packed_elements(columns, inner),), torch.nan)
    steps = (inner, 1) if transposed else (1, columns)
    if bias is None:
        lib.pack(packed, weight, columns, inner, *steps)
    else:
        lib.pack_both(packed, weight, bias, columns, inner, *steps)
    out = torch.full((x.shape[0] + 1, columns), torch.nan)  # a row more, that must stay untouched
    lib.linear(out, x, packed, x.shape[0], columns, inner)
    assert out[-1].isnan().all()
    return out[:-1]


@pytest.mark.parametrize("transposed", [True, False], ids=["columns", "components"])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize(
    "rows, inner, columns",
    [
        (1, 1, 1),
        (6, 8, 16),
        (13, 255, 33),
        (48, 256, 64),
        (49, 257, 65),
        (100, 600, 31),
        (300, 64, 130),
        (97, 8000, 35),
    ],
)
def test_sizes(rows: int, inner: int, columns: int, biased: bool, transposed: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(rows, inner), torch.randn(columns, inner)
    bias = torch.randn(columns) if biased else None
    want = torch.nn.functional.linear(x.double(), weight.double(), None if bias is None else bias.double())
    got = mapped(x, weight if transposed else weight.t().contiguous(), bias, transposed)
    assert (got - want).abs().max() <= 1e-6 * inner**0.5 * 4


def test_nothing_is_summed_up() -> None:
    assert torch.equal(mapped(torch.empty(5, 0), torch.empty(3, 0), torch.arange(3.0)), torch.arange(3.0).repeat(5, 1))


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    x, weight = torch.ones(20, 40), torch.ones(50, 40)
    x[7, 3], weight[11, 5], weight[49, 0] = torch.nan, torch.inf, torch.nan
    got, want = mapped(x, weight, None), x @ weight.t()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
