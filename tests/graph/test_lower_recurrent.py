"""Recurrent layers as kernels: what is found in a graph, both directions, several layers, states given or not."""

from typing import Any

import pytest
import torch
from test_lower_linear import agree, follow
from torch import Tensor, nn

from kernelwright.graph import capture, print_module, rewrite
from kernelwright.graph.lower import Lowering, lower
from kernelwright.records import Candidate, Range, SourceFile
from kernelwright.targets import load_candidate


def lowered(module: nn.Module, args: tuple[Any, ...], dynamic: Any = None) -> tuple[Lowering, nn.Module]:
    lowering = lower(rewrite(capture(module.eval(), args, dynamic=dynamic)).capture)
    text = print_module(lowering.capture, base=None)
    sources = (SourceFile("model.py", text), SourceFile("kernels.cpp", lowering.text()))
    made = load_candidate(Candidate("t", "cpp@cpu", sources), [])
    follow(made, module)
    return lowering, made.eval()


def layers(lowering: Lowering) -> int:
    """Calls of kernels for recurrent layers."""
    names = {kernel.name for kernel in lowering.filled if kernel.template == "recurrent"}
    return sum(getattr(node.target, "name", "") in names for node in lowering.capture.graph.graph.nodes)


KINDS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch first", "steps first"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_layers_in_both_directions(kind: str, batch_first: bool, bias: bool) -> None:
    torch.manual_seed(0)
    make, options = KINDS[kind]
    module = make(5, 18, 2, bidirectional=True, batch_first=batch_first, bias=bias, **options)
    lowering, made = lowered(module, (x := torch.randn(3, 4, 5),))
    assert layers(lowering) == 4 and len(lowering.linears) == 1
    agree(made, module, x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(-0.7)
    follow(made, module)
    agree(made, module, x)


class Last(nn.Module):
    """Given states; of one layer the last step's output and of both directions the hidden state after them."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        make, options = KINDS[kind]
        self.kind = kind
        self.one = make(6, 9, batch_first=True, **options)
        self.two = make(9, 7, bidirectional=True, batch_first=True, **options)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out, _ = self.one(x, (state, state * 2) if self.kind == "lstm" else state)
        both, last = self.two(torch.tanh(out))
        return out[:, -1], both[:, -1], last[1] if self.kind == "lstm" else last


@pytest.mark.parametrize("kind", KINDS)
def test_only_some_results_are_needed(kind: str) -> None:
    torch.manual_seed(0)
    module, args = Last(kind), (torch.randn(3, 5, 6), torch.randn(1, 3, 9))
    lowering, made = lowered(module, args)
    assert layers(lowering) == 3
    agree(made, module, *args)


def test_steps_and_rows_may_be_open() -> None:
    torch.manual_seed(0)
    module = nn.LSTM(5, 18)
    lowering, made = lowered(module, (torch.randn(4, 3, 5),), {0: {0: Range(2, 9, 4), 1: Range(2, 9, 3)}})
    assert layers(lowering) == 1
    for shape in [(4, 3, 5), (2, 9, 5), (9, 2, 5)]:
        agree(made, module, torch.randn(shape))


class Doubled(nn.Module):
    """What looks like a step of an RNN, but also uses the linear map's result."""

    def __init__(self) -> None:
        super().__init__()
        self.given, self.hidden = nn.Linear(4, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        h, made = first, []
        for step in self.given(x):
            h = torch.tanh(self.hidden(h) + step) * 2
            made.append(h)
        return torch.cat(made)


@pytest.mark.parametrize(
    "module, args",
    [
        (nn.LSTM(5, 6).double(), (torch.randn(3, 2, 5).double(),)),
        (nn.GRU(5, 6).double(), (torch.randn(3, 2, 5).double(),)),
        (nn.LSTM(5, 6, proj_size=3), (torch.randn(3, 2, 5),)),
        (Doubled(), (torch.randn(3, 2, 4), torch.randn(1, 2, 8))),
    ],
    ids=["double lstm", "double gru", "projected", "another cell"],
)
def test_what_stays_as_it_is(module: nn.Module, args: tuple[Any, ...]) -> None:
    low = lower(rewrite(capture(module.eval(), args)).capture)
    assert layers(low) == 0


def test_none_where_the_library_is_asked_for() -> None:
    given = capture(nn.LSTM(4, 4).eval(), (torch.randn(3, 2, 4),))
    assert layers(lower(given)) == 1 and layers(lower(given, linear=False)) == 0
