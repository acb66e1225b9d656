"""Linear maps by weights as kernels: packed by prepare(), again for every change of weights."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.graph import capture, print_module, rewrite
from kernelwright.graph.lower import lower
from kernelwright.records import Candidate, Range, SourceFile
from kernelwright.targets import load_candidate, prepare


def lowered(module: nn.Module, args, dynamic=None):
    """The lowering, and the printed module on the reference's weights."""
    lowering = lower(rewrite(capture(module.eval(), args, dynamic=dynamic)).capture)
    text = print_module(lowering.capture, base=None)
    candidate = Candidate("t", "cpp@cpu", (SourceFile("model.py", text), SourceFile("kernels.cpp", lowering.text())))
    made = load_candidate(candidate, [])
    follow(made, module)
    return lowering, text, made.eval()


def follow(made: nn.Module, module: nn.Module) -> None:
    made.load_state_dict(module.state_dict())
    prepare(made)


def agree(made: nn.Module, module: nn.Module, *args: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(made(*args), module(*args), rtol=1e-5, atol=2e-6, equal_nan=True)


class Block(nn.Module):
    """A weight used twice, one without bias, one that lies as transformers' Conv1D has it, and one that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(24, 24)
        self.second = nn.Linear(24, 40, bias=False)
        self.weight, self.bias = nn.Parameter(torch.randn(40, 33)), nn.Parameter(torch.randn(33))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(F.gelu(self.first(self.first(x))) + x)
        flat = torch.addmm(self.bias, x.view(-1, 40), self.weight)
        return F.linear(flat.view(*x.shape[:-1], 33), self.weight * 0.1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
def test_weights_are_packed_once_and_followed(dynamic: bool) -> None:
    torch.manual_seed(0)
    module, x = Block(), torch.randn(3, 20, 24)
    lowering, text, made = lowered(module, (x,), {0: {0: Range(1, 8, 3), 1: Range(4, 64, 20)}} if dynamic else None)
    assert lowering.names[0] == "linear" and [packed.bias for packed in lowering.packed_weights] == [True, False]
    body = text.partition("def forward")[2]
    assert body.count("self.lib.linear") == 4 and text.count("self.lib.pack_weight") == 3 and "pack_" not in body
    assert body.count("F.linear(") == 1
    agree(made, module, x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(-0.7)
    follow(made, module)
    for shape in [(3, 20, 24), (1, 4, 24), (5, 33, 24)] if dynamic else [(3, 20, 24)]:
        agree(made, module, torch.randn(shape))


class Mapped(nn.Module):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.map = nn.Linear(16, 8, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.map(x)


class Product(nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.linear(x, weight)


@pytest.mark.parametrize(
    "module, args",
    [
        (Mapped(torch.float64), [torch.randn(20, 16, dtype=torch.float64)]),
        (Product(), [torch.randn(20, 16), torch.randn(8, 16)]),
    ],
    ids=["double", "an argument"],
)
def test_what_stays_with_the_library(module: nn.Module, args: list[torch.Tensor]) -> None:
    lowering, _, made = lowered(module, args)
    assert not lowering.linears
    agree(made, module, *args)
    capturing = rewrite(capture(Mapped(), [torch.randn(20, 16)])).capture
    assert lower(capturing).linears and not lower(capturing, linear=False).linears


class Followed(nn.Module):
    """All that an epilogue may read: per row, per column, one number, another tensor; a value used twice, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(24, 24) for _ in range(3))
        self.norm = nn.BatchNorm1d(24)
        self.scale, self.by_row = nn.Parameter(torch.randn(24)), nn.Parameter(torch.randn(3, 20, 1))
        self.one = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.maps[0](x)) * self.scale / 3 + self.by_row
        gate = self.maps[1](y)
        y = (gate * torch.sigmoid(gate) + y) * self.one
        flat = torch.tanh(self.maps[2](y.view(60, 24)))
        return F.softmax(self.norm(flat * flat), -1)


def test_what_follows_is_part_of_the_map() -> None:
    torch.manual_seed(0)
    module, x = Followed(), torch.randn(3, 20, 24)
    module.norm.running_mean.uniform_(), module.norm.running_var.uniform_(0.5, 2)
    lowering, _, made = lowered(module, (x,))
    assert len(lowering.linears) == 3 and not lowering.fusions
    assert all(linear.note for linear in lowering.linears)
    agree(made, module, x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(-0.7)
    follow(made, module)
    x[1, 3, 4] = torch.nan
    agree(made, module, x)


class Shown(nn.Module):
    """Sums that others need too are results of the kernel, and what is not theirs element by element comes after it."""

    def __init__(self) -> None:
        super().__init__()
        self.map, self.other = nn.Linear(16, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.map(x))
        return self.other(y * y.mean(-1, keepdim=True)) + turned.t() + y[0, 0]


def test_a_value_that_is_needed_elsewhere_ends_the_kernel() -> None:
    torch.manual_seed(0)
    module, args = Shown(), (torch.randn(20, 16), torch.randn(8, 20))
    lowering, _, made = lowered(module, args)
    assert len(lowering.linears) == 2
    agree(made, module, *args)


def test_rows_in_another_order() -> None:
    module, x = Mapped(), torch.randn(3, 16, 20).transpose(1, 2)
    _, _, made = lowered(module, [x])
    agree(made, module, x)
    agree(made, module, x.contiguous())
