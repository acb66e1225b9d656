"""Operators that hand-tuned templates do, against float64: odd sizes, strides and dtypes, and numbers that are none.

Each test compiles one file of several kernels, since that is what takes its time.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from test_lower import Of, check, kernels, lowered
from torch import Tensor

from kernelwright.graph import capture
from kernelwright.graph.lower import lower
from kernelwright.records import Range

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def all_made(count: int, function, *args: Tensor, specials: bool = True) -> None:
    """All `count` operators become kernels, and are right for the numbers given and with NaN and infinities among
    them."""
    module = Of(lambda m, *values: function(*values))
    fast, low = lowered(module, args)
    assert len(low.filled) == len(kernels(low)) == count, kernels(low)
    x, *rest = args
    with torch.no_grad():
        check(fast(*args), module, args)
        if specials and x.is_floating_point():
            odd = x.clone()
            odd.flatten()[:: max(1, x.numel() // 7)] = torch.tensor(math.nan)
            odd.flatten()[3 :: max(1, x.numel() // 5)] = -math.inf
            check(fast(odd, *rest), module, (odd, *rest))


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pooling_of_planes(dtype: torch.dtype) -> None:
    def pools(x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.max_pool2d(x, 2),
            F.max_pool2d(x, (3, 5), (1, 2), (1, 2), (2, 1)),
            F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 1, 1),
            F.avg_pool2d(x, (2, 5), (3, 2), (1, 2), ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            F.avg_pool2d(x, 11, 3, divisor_override=7),
            F.adaptive_avg_pool2d(x, (3, 5)),
            F.adaptive_max_pool2d(x, (5, 4)),
        )

    all_made(9, pools, drawn(2, 3, 13, 37, dtype=dtype))


def test_pooling_of_lines_and_volumes() -> None:
    def pools(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            F.max_pool1d(x, 8, 1, 4, 3),
            F.avg_pool1d(x, 5, 3, 2),
            F.max_pool3d(y, 3, 2, 1, 2),
            F.avg_pool3d(y, (2, 3, 1), (1, 2, 3), (1, 1, 0)),
            F.adaptive_avg_pool3d(y, (2, 3, 4)),
            F.max_pool2d(y[0], 2),
        )

    all_made(6, pools, drawn(3, 5, 700), drawn(2, 3, 7, 9, 11))


def test_windows_longer_than_a_block() -> None:
    all_made(2, lambda x: (F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 4, 1, 2)), drawn(1, 2, 3001))


@pytest.mark.parametrize("dtype", DTYPES)
def test_scans(dtype: torch.dtype) -> None:
    def scans(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        zeros = torch.zeros_like(x.select(1, 0).unsqueeze(1))
        return (
            x.cumsum(2),
            x.cumsum(0),
            x.flip(1).cumsum(1).flip(1),
            x.flip(-1).cumsum(-1).flip(-1),
            torch.cat((zeros, x.narrow(1, 0, x.size(1) - 1).cumsum(1)), 1),
            (x * mask).cumsum(2),
            (mask * x).cumsum(1),
        )

    all_made(7, scans, drawn(5, 19, 43, dtype=dtype), drawn(5, 19, 43) > 0)


def test_products_and_whole_numbers() -> None:
    def scans(x: Tensor, whole: Tensor) -> tuple[Tensor, ...]:
        return x.cumprod(1), x.cumprod(0), whole.cumsum(0), (whole > 0).cumsum(1), x.cumsum(1)

    all_made(5, scans, 1 + 0.1 * drawn(300, 77), (drawn(21, 35) * 9).long())


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_with_their_places(dtype: torch.dtype) -> None:
    def extremes(x: Tensor) -> tuple[Tensor, ...]:
        return (
            x.argmax(1),
            x.argmin(2),
            x.argmax(0, keepdim=True),
            x.argmax(),
            *x.max(1),
            *x.min(-1, keepdim=True),
            x.max(0)[1],
            x.min(1)[0],
            x.max(-1)[0],
        )

    x = drawn(4, 130, 71, dtype=dtype)
    x[:, 7] = x[:, 90]  # of equals the first
    all_made(9, extremes, x)


def test_extremes_of_a_long_row_and_of_whole_numbers() -> None:
    long = drawn(2, 100_003)
    long[:, 70_000] = long[:, 70_001] = 9.0

    def extremes(x: Tensor, whole: Tensor) -> tuple[Tensor, ...]:
        return x.argmax(1), x.argmin(), whole.argmax(0), whole.argmin(1)

    all_made(4, extremes, long, (drawn(40, 50) * 3).long())


@pytest.mark.parametrize("dtype", DTYPES)
def test_depthwise_convolutions(dtype: torch.dtype) -> None:
    def convolutions(x: Tensor, small: Tensor, wide: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return (
            F.conv2d(x, small, groups=5),
            F.conv2d(x, small, bias[:5], 2, (1, 0), groups=5),
            F.conv2d(x, wide, bias, (1, 2), (3, 6), (1, 2), groups=5),
        )

    shapes = (2, 5, 33, 61), (5, 1, 3, 3), (10, 1, 5, 7), (10,)
    given = [drawn(*shape, dtype=dtype) for shape in shapes]
    all_made(3, convolutions, *given, specials=False)


def test_depthwise_lines_and_tall_planes() -> None:
    def convolutions(x: Tensor, line: Tensor, tall: Tensor, column: Tensor) -> tuple[Tensor, ...]:
        return F.conv1d(x, line, padding=2, groups=5), F.conv2d(tall, column, padding=(1, 0), groups=5)

    all_made(2, convolutions, drawn(3, 5, 400), drawn(5, 1, 4), drawn(1, 5, 500, 70), drawn(5, 1, 3, 1), specials=False)


def test_what_stays_with_the_library() -> None:
    def others(x: Tensor, w: Tensor, full: Tensor) -> tuple[Tensor, ...]:
        values, places = F.max_pool2d(x, 2, return_indices=True)
        return values, places, F.conv2d(x[..., :9], w, groups=4), F.conv2d(x, full), x.flip(1).cumsum(2)

    args = (drawn(1, 4, 20, 20), drawn(4, 1, 3, 3), drawn(400, 4, 9, 9))
    low = lower(capture(Of(lambda m, *values: others(*values)), args))
    assert [filled.template for filled in low.filled] == ["scan"]


def test_open_sizes() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return F.max_pool2d(x, 2), x.cumsum(0), x.argmax(1)

    module = Of(lambda m, x: function(x))
    fast, low = lowered(module, (drawn(4, 3, 10, 12),), {0: {0: Range(2, 64, 2)}})
    assert len(low.filled) == 3
    for batch in (2, 5, 33):
        args = (drawn(batch, 3, 10, 12),)
        check(fast(*args), module, args)
