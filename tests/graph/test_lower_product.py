"""Matrix products as kernels: operands read where they lie, in batches, and triangles of the result."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_lower import Of, check, kernels, lowered
from torch import Tensor

from kernelwright.graph import capture
from kernelwright.graph.lower import lower
from kernelwright.records import Range


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape, dtype=dtype)


def made(count: int, function, *args: Tensor) -> None:
    """All `count` products become kernels that copy no operand, and are right, also with NaN and infinities."""
    module = Of(lambda m, *values: function(*values))
    fast, low = lowered(module, args)
    assert len(kernels(low)) == count and low.multiplies, kernels(low)
    assert {kernel.name for kernel in low.filled} == set(kernels(low))
    assert "contiguous()" not in low.capture.graph.code and "clone" not in low.capture.graph.code
    with torch.no_grad():
        check(fast(*args), module, args)
        odd = args[0].clone()
        odd.flatten()[:: max(1, odd.numel() // 3)] = math.nan
        check(fast(odd, *args[1:]), module, (odd, *args[1:]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operands_either_way_round(dtype: torch.dtype) -> None:
    def products(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return a @ b, b.T @ a.T, a @ a.T, a.T @ a, a[3:9, 5:] @ b[5:]

    made(5, products, drawn(150, 130, dtype=dtype), drawn(130, 140, dtype=dtype))


def test_batches() -> None:
    def products(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return torch.bmm(a, b), a @ c, a.unflatten(0, (2, 2)) @ b.unflatten(0, (2, 2)), torch.bmm(b.mT, a.mT), a @ a.mT

    made(5, products, drawn(4, 21, 100), drawn(4, 100, 17), drawn(100, 35))


def test_vectors() -> None:
    def products(a: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (
            a @ x.unsqueeze(1),
            y.unsqueeze(0) @ a,
            a.T @ y.unsqueeze(1),
            F.linear(x.unsqueeze(0), a),
        )

    made(4, products, drawn(70, 90), drawn(90), drawn(70))


def test_a_bias_is_added() -> None:
    def maps(x: Tensor, y: Tensor, weight: Tensor, turned: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return F.linear(x, weight, bias), F.linear(y, weight, bias), torch.addmm(bias, x[:2], turned)

    made(3, maps, drawn(45, 300), drawn(2, 300), drawn(90, 300), drawn(300, 90), drawn(90))


def test_triangles() -> None:
    def products(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return torch.triu(a @ b), torch.tril(b.T @ a.T, -2), torch.triu(torch.bmm(a[None], b[None]), 3)

    made(3, products, drawn(75, 50), drawn(50, 90))


def test_sizes_that_stay_open() -> None:
    args = (drawn(20, 130), drawn(130, 30))
    module = Of(lambda m, a, b: (a @ b, b.T @ a.T, torch.triu(a @ b)))
    fast, low = lowered(module, args, {0: {0: Range(8, 64, 20)}})
    assert len(low.filled) >= 2
    for rows in (9, 20, 33):
        with torch.no_grad():
            check(fast(drawn(rows, 130), args[1]), module, (drawn(rows, 130), args[1]))


@pytest.mark.parametrize(
    "function, args",
    [
        (lambda a, b: a @ b, (drawn(30, 20), drawn(20, 30))),
        (lambda a, b: a @ b, (drawn(30, 200).bfloat16(), drawn(200, 30).bfloat16())),
        (lambda a, b: a @ b, (drawn(2, 3, 30, 200), drawn(3, 200, 30))),
    ],
    ids=["short sums", "bfloat16", "broadcast"],
)
def test_what_stays_with_the_library(function, args: tuple[Tensor, ...]) -> None:
    module = Of(lambda m, *values: function(*values))
    fast, low = lowered(module, args)
    assert not low.multiplies
    check(fast(*args), module, args)


def test_products_may_be_left_to_the_library() -> None:
    captured = capture(Of(lambda m, a, b: a @ b), (drawn(30, 200), drawn(200, 30)))
    assert lower(captured).multiplies and not lower(captured, linear=False).multiplies


def test_usual_products_may_be_left_to_the_library() -> None:
    module = Of(lambda m, a, b, c: (a @ b, a[:2] @ b, torch.triu(a @ c)))
    captured = capture(module, (drawn(30, 200), drawn(200, 30), drawn(200, 40)))
    assert len(lower(captured).filled) == 3 and len(lower(captured, products=False).filled) == 2
