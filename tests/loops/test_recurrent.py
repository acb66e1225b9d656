"""The template for recurrent layers against float64: sizes around its tiles, every cell, both directions, NaN."""

from functools import cache

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.loops import filled_template, packed_recurrent, print_filled, recurrent, recurrent_weights

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN, "relu": nn.RNN}


@cache
def library():
    text = filled_template("recurrent")
    for cell in CELLS:
        text += print_filled(packed_recurrent(cell, "hidden", f"pack_{cell}"))
        for way in (False, True):
            sizes = ("steps", "batch", "hidden")
            text += print_filled(recurrent(cell, way, sizes, f"{cell}_{'back' if way else 'on'}"))
    return kernelwright.compile(text, language="cpp")


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("reversed", [False, True], ids=["on", "back"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("steps, batch, hidden", [(1, 1, 1), (3, 2, 17), (5, 7, 33), (4, 13, 130), (3, 1, 260)])
def test_sizes(cell: str, reversed: bool, steps: int, batch: int, hidden: int, threads: None) -> None:
    torch.manual_seed(0)
    options = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    module = CELLS[cell](5, hidden, **options)
    x, first, state = torch.randn(steps, batch, 5), torch.randn(1, batch, hidden), torch.randn(1, batch, hidden)
    if batch > 1:
        x[0, 1, 2] = torch.nan
    held = [first, state] if cell == "lstm" else [first]
    given = nn.functional.linear(x, module.weight_ih_l0, module.bias_ih_l0).detach()
    packed = torch.full((recurrent_weights(cell, hidden),), torch.nan)
    getattr(library(), f"pack_{cell}")(packed, module.weight_hh_l0.detach(), hidden)
    made = [torch.full((steps, batch, hidden), torch.nan), *(torch.full_like(item, torch.nan) for item in held)]
    kernel = getattr(library(), f"{cell}_{'back' if reversed else 'on'}")
    kernel(*made, given, *held, module.bias_hh_l0.detach(), packed, steps, batch, hidden)
    wide = [item.double() for item in held]
    with torch.no_grad():
        ours = x.flip(0) if reversed else x
        out, last = module.double()(ours.double(), tuple(wide) if cell == "lstm" else wide[0])
    want = [out.flip(0) if reversed else out, *(last if cell == "lstm" else [last])]
    for got, other in zip(made, want, strict=True):
        assert torch.equal(got.isnan(), other.isnan())
        assert (got - other).nan_to_num().abs().max() <= 3e-6
