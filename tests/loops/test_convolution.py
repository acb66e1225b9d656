"""The convolution template against float64: odd sizes, strides, dilations, groups, NaN; every kernel in one file."""

from dataclasses import dataclass, replace
from functools import cache
from math import prod

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    SUM,
    Apply,
    Convolution,
    Epilogue,
    Op,
    Read,
    ScalarType,
    Variable,
    Window,
    filled_template,
    packed_convolution,
    packed_weights,
    print_convolution,
    print_filled,
)


@dataclass(frozen=True)
class Given:
    """A convolution as torch has it, in one to three dimensions."""

    inner: int
    outer: int
    size: tuple[int, ...]
    taps: tuple[int, ...]
    stride: int = 1
    before: int = 0
    dilation: int = 1
    groups: int = 1
    batch: int = 2
    transposed: bool = False

    @property
    def window(self) -> Window:
        def three(*numbers: int, fill: int) -> tuple[int, int, int]:
            first, second, third = (*[fill] * (3 - len(numbers)), *numbers)
            return first, second, third

        rank = len(self.size)
        stride, before, dilation = ([number] * rank for number in (self.stride, self.before, self.dilation))
        return Window(
            three(*self.taps, fill=1),
            three(*stride, fill=1),
            three(*before, fill=0),
            three(*dilation, fill=1),
            self.transposed,
        )

    def drawn(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        torch.manual_seed(prod(self.size))
        x = torch.randn(self.batch, self.groups * self.inner, *self.size)
        outer = self.groups * self.outer
        shape = (x.shape[1], self.outer) if self.transposed else (outer, self.inner)
        return x, torch.randn(*shape, *self.taps), torch.randn(outer)

    def by_torch(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        rank = len(self.size)
        stride, before, dilation = ([number] * rank for number in (self.stride, self.before, self.dilation))
        shape = (stride, before, dilation, self.transposed, [0] * rank, self.groups)
        return torch.ops.aten.convolution(x, weight, bias, *shape)


GIVEN = [
    Given(3, 5, (37,), (4,)),
    Given(7, 17, (1501,), (3,), stride=3, dilation=4),
    Given(5, 9, (33, 61), (3, 3), before=1),
    Given(3, 8, (29, 31), (7, 5), stride=2, before=3),
    Given(2, 3, (30, 40), (3, 5), before=4, dilation=3, groups=3),
    Given(70, 12, (9, 300), (1, 1), stride=2),
    Given(3, 20, (9, 10, 23), (3, 2, 5), before=1),
    Given(4, 6, (8, 9, 11), (3, 3, 3), stride=2, before=2, dilation=2, groups=2),
    Given(300, 4, (5, 7), (3, 3), before=1, batch=1),
    Given(4, 5, (40,), (3,), stride=2, before=1, dilation=2, transposed=True),
    Given(6, 11, (17, 19), (4, 4), stride=2, before=1, transposed=True),
    Given(3, 4, (13, 21), (3, 5), stride=3, before=2, dilation=2, groups=4, transposed=True),
    Given(5, 9, (12, 33), (3, 3), stride=5, before=1, dilation=2, transposed=True),
    Given(1, 1, (20, 50), (3, 3), stride=2, groups=6, transposed=True),
    Given(8, 10, (5, 6, 9), (3, 5, 2), stride=2, before=1, groups=2, transposed=True),
    Given(16, 9, (4, 9, 20), (3, 3, 3), before=1, transposed=True),
]


@cache
def library():
    """The kernels "made0", "made1", ... of GIVEN, and "packed0", ... that pack their weights."""
    text = filled_template("convolution")
    sizes = ("batch", "in_d", "in_h", "in_w", "out_d", "out_h", "out_w")
    biased = Apply(Op.ADD, (SUM, Variable("bias", ScalarType.FLOAT32)))
    for number, given in enumerate(GIVEN):
        assert given.window.fits
        shape = (given.window, given.groups, given.inner, given.outer)
        reads = (Read("bias", ScalarType.FLOAT32, "channel"),)
        text += print_convolution(Convolution(*shape, sizes, Epilogue(reads, (), biased), name=f"made{number}"))
        text += print_filled(replace(packed_convolution(*shape), name=f"packed{number}"))
    return kernelwright.compile(text, language="cpp")


def made(given: Given, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    number = GIVEN.index(given)
    packed = torch.full((packed_weights(given.window, given.groups, given.inner, given.outer),), torch.nan)
    getattr(library(), f"packed{number}")(packed, weight)
    shape = given.by_torch(x, weight, bias).shape
    out = torch.full((shape[0] + 1, *shape[1:]), torch.nan)  # an image more, that must stay untouched
    ones = [1] * (3 - len(given.size))
    getattr(library(), f"made{number}")(out, x, bias, packed, x.shape[0], *ones, *given.size, *ones, *shape[2:])
    assert out[-1].isnan().all()
    return out[:-1]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_sizes(given: Given, threads: int) -> None:
    x, weight, bias = given.drawn()
    want = given.by_torch(x.double(), weight.double(), bias.double())
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        off = (made(given, x, weight, bias) - want).abs()
    finally:
        torch.set_num_threads(before)
    reference = (given.by_torch(x, weight, bias) - want).abs()
    assert off.square().mean().sqrt() <= 1.5 * reference.square().mean().sqrt()
    # The largest of so many errors is one element's chance: a unit in the last place of the largest result is granted.
    assert off.max() <= 1.5 * reference.max() + torch.finfo(torch.float32).eps * want.abs().max()


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_nan_and_infinity_reach_what_sees_them(given: Given) -> None:
    x, weight, bias = given.drawn()
    x.flatten()[:: max(1, x.numel() // 3)] = torch.nan
    x.flatten()[5 :: max(1, x.numel() // 4)] = torch.inf
    got, want = made(given, x, weight, bias), given.by_torch(x.double(), weight.double(), bias.double())
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
