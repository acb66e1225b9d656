"""Convolutions as kernels: weights packed by prepare(), what follows them fused, and what stays with the library."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_lower_linear import follow
from torch import Tensor, nn

from kernelwright.graph import capture, print_module, rewrite
from kernelwright.graph.lower import Lowering, lower
from kernelwright.records import Candidate, Range, SourceFile
from kernelwright.targets import load_candidate


def lowered(module: nn.Module, args: tuple[Tensor, ...], dynamic: Any = None) -> tuple[Lowering, str, nn.Module]:
    lowering = lower(rewrite(capture(module.eval(), args, dynamic=dynamic)).capture)
    text = print_module(lowering.capture, base=None)
    sources = (SourceFile("model.py", text), SourceFile("kernels.cpp", lowering.text()))
    made = load_candidate(Candidate("t", "cpp@cpu", sources), [])
    follow(made, module)
    return lowering, text, made.eval()


def agree(made: nn.Module, module: nn.Module, *args: Tensor) -> None:
    """Within 1.5 times the reference's own error, in the mean over all elements, and NaN in the same places."""
    with torch.no_grad():
        got, reference = made(*args), module(*args)
        want = module.double()(*(arg.double() if arg.is_floating_point() else arg for arg in args))
        module.float()
    assert got.dtype == reference.dtype and got.stride() == reference.stride()
    assert torch.equal(got.isnan(), want.isnan())
    off, own = ((value - want).nan_to_num().square().mean().sqrt() for value in (got, reference))
    assert off <= 1.5 * own + 1e-8 * want.nan_to_num().abs().max()


class Followed(nn.Module):
    """All that an epilogue may read: per channel, one number, another tensor; a value used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(5, 7, 3, stride=(2, 3), padding=1, output_padding=(1, 2))
        self.lines = nn.Conv2d(7, 6, (3, 1), groups=1)
        self.shift, self.scale = nn.Parameter(torch.randn(7, 1, 1)), nn.Parameter(torch.randn(1))

    def forward(self, x: Tensor, other: Tensor) -> Tensor:
        y = self.up(x) + self.shift
        y = F.mish(F.hardtanh(y * self.scale, -1, 2) + other)
        return self.lines(y * torch.sigmoid(y) * 0.5)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
def test_what_follows_is_part_of_the_kernel_and_weights_are_packed_once(dynamic: bool) -> None:
    torch.manual_seed(0)
    module, x, other = Followed(), torch.randn(2, 5, 9, 11), torch.randn(2, 7, 18, 33)
    lowering, text, made = lowered(
        module, (x, other), {0: {0: Range(1, 8, 2)}, 1: {0: Range(1, 8, 2)}} if dynamic else None
    )
    body = text.partition("def forward")[2]
    assert len(lowering.convolutions) == 2 and not lowering.fusions
    assert text.count("self.lib.pack_convolution") == 2 and "pack_convolution" not in body
    agree(made, module, x, other)
    x[1, 2, 3, 4], x[0, 0, 0, 0] = torch.nan, torch.inf
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(-0.7)
    follow(made, module)
    for count in (1, 5) if dynamic else (2,):
        agree(made, module, x[:1].repeat(count, 1, 1, 1), torch.randn(count, 7, 18, 33))


class Shown(nn.Module):
    """Sums that others need too are results of the kernel, and so is a value from which its operand is made."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(4, 6, 5, stride=2, dilation=2, bias=False)
        self.down = nn.Conv3d(3, 8, 3, padding=1)

    def forward(self, x: Tensor, volume: Tensor) -> Tensor:
        y = F.relu(self.up(x))
        gate = y * torch.sigmoid(y.mean(-1, keepdim=True))
        return gate.sum((1, 2)) + F.leaky_relu(self.down(volume)).amax((1, 2, 3, 4))


def test_a_value_that_is_needed_elsewhere_ends_the_kernel() -> None:
    torch.manual_seed(0)
    module, x, volume = Shown(), torch.randn(2, 4, 30), torch.randn(2, 3, 6, 7, 20)
    lowering, _, made = lowered(module, (x, volume))
    assert len(lowering.convolutions) == 2
    agree(made, module, x, volume)


class Block(nn.Module):
    """Convolutions of images that make few products of an element, with batch norms and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 20, (3, 5), stride=(1, 2), padding=(1, 2), bias=False)
        self.inner = nn.Conv2d(20, 20, 3, padding=2, dilation=2)
        self.norms = nn.ModuleList([nn.BatchNorm2d(20), nn.BatchNorm2d(20, affine=False)])
        for norm in self.norms:
            for buffer in (norm.running_mean, norm.running_var):
                assert isinstance(buffer, Tensor)
                nn.init.uniform_(buffer, 0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norms[0](self.stem(x)))
        return F.relu(y + self.norms[1](self.inner(y)))


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
def test_a_batch_norm_is_part_of_the_kernel(dynamic: bool) -> None:
    torch.manual_seed(0)
    module, x = Block(), torch.randn(2, 3, 13, 37)
    lowering, text, made = lowered(module, (x,), {0: {0: Range(1, 8, 2)}} if dynamic else None)
    assert len(lowering.convolutions) == 2 and not lowering.fusions and "batch_norm" not in text
    agree(made, module, x)
    x[1, 2, 3, 4], x[0, 0, 0, 0] = torch.nan, torch.inf
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.mul_(2)
    follow(made, module)
    agree(made, module, x)


class Deviating(nn.Module):
    """A batch norm whose input others need too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 9, 1), nn.BatchNorm2d(9)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.norm(y) * y.amax((2, 3), keepdim=True)


def test_a_batch_norm_of_sums_that_are_needed_elsewhere_is_not() -> None:
    torch.manual_seed(0)
    module, x = Deviating(), torch.randn(2, 4, 9, 11)
    lowering, _, made = lowered(module, (x,))
    assert len(lowering.convolutions) == 1 and lowering.fusions
    agree(made, module, x)


class Given(nn.Module):
    """A weight that is an argument is packed in every call."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.conv_transpose2d(x, weight, stride=2, groups=2)


def test_weights_that_are_arguments() -> None:
    torch.manual_seed(0)
    module, args = Given(), (torch.randn(2, 6, 9, 8).transpose(2, 3), torch.randn(6, 4, 3, 2))
    lowering, text, made = lowered(module, args)
    assert len(lowering.convolutions) == 1 and "pack_convolution" in text.partition("def forward")[2]
    agree(made, module, *args)


@pytest.mark.parametrize(
    "module, x",
    [
        (nn.Conv2d(64, 64, 3), torch.randn(1, 64, 12, 12)),
        (nn.Conv2d(128, 128, 3, stride=2, padding=1), torch.randn(1, 128, 12, 12)),
        (nn.ConvTranspose2d(8, 8, 3), torch.randn(1, 8, 12, 12)),
        (nn.ConvTranspose2d(8, 8, 3, stride=2).double(), torch.randn(1, 8, 12, 12).double()),
        (nn.ConvTranspose2d(8, 8, 3, stride=(1, 9)), torch.randn(1, 8, 12, 12)),
        (nn.ConvTranspose2d(3000, 2, 3, stride=2), torch.randn(1, 3000, 3, 3)),
    ],
    ids=["plain", "strided", "stride 1", "double", "wide stride", "many channels"],
)
def test_what_stays_with_the_library(module: nn.Module, x: Tensor) -> None:
    low = lower(rewrite(capture(module.eval(), (x,))).capture)
    assert not low.convolutions and not low.packings


def test_none_where_the_library_is_asked_for() -> None:
    given = capture(nn.ConvTranspose2d(4, 4, 3, stride=2).eval(), (torch.randn(1, 4, 9, 9),))
    assert lower(given).convolutions and not lower(given, convolution=False).convolutions
