"""Rules that spare copies: the same values from fewer calls, on odd shapes, and refusals where a copy pays."""

import math
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from road_modules import Of
from torch import Tensor, nn

from kernelwright.graph import Capture, capture, identify, print_module, rewrite
from kernelwright.graph.capturing import run
from kernelwright.graph.node import base_of, shape_of, tensor_of
from kernelwright.records import Range

aten = torch.ops.aten
ATTEND = aten.scaled_dot_product_attention.default
SPARING = {"heads", "moved", "rows in memory", "rows together"}


def count(captured: Capture, *targets: object) -> int:
    return sum(node.target in targets for node in captured.graph.graph.nodes)


def divided(size: int, draw: random.Random) -> list[int]:
    factor = draw.choice([step for step in range(1, size + 1) if size % step == 0])
    return [factor, size // factor]


def step(x: Tensor, draw: random.Random) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """One random view or copy, and what it makes of `x`."""
    kind = draw.choice(["permute", "reshape", "unsqueeze", "squeeze", "select", "copy", "merge"])
    if kind == "permute":
        order = draw.sample(range(x.dim()), x.dim())
        move = lambda t: t.permute(order)
    elif kind == "reshape":
        dim = draw.randrange(x.dim())
        sizes = [*x.shape[:dim], *divided(x.shape[dim], draw), *x.shape[dim + 1 :]]
        move = lambda t: t.reshape(sizes)
    elif kind == "merge" and x.dim() > 1:
        dim = draw.randrange(x.dim() - 1)
        sizes = [*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :]]
        move = lambda t: t.reshape(sizes)
    elif kind == "select" and x.dim() > 2:
        dim = draw.randrange(x.dim())
        index = draw.randrange(-x.shape[dim], x.shape[dim])
        move = lambda t: t.select(dim, index)
    elif kind == "squeeze" and x.dim() > 1:
        dim = draw.randrange(x.dim())
        move = lambda t: t.squeeze(dim)
    elif kind == "unsqueeze":
        dim = draw.randrange(x.dim() + 1)
        move = lambda t: t.unsqueeze(dim)
    else:
        move = lambda t: t.contiguous()
    return move, move(x)


@pytest.mark.parametrize("seed", range(25))
def test_any_chain_moves_the_same_values(seed: int) -> None:
    draw = random.Random(seed)
    x = torch.randn([draw.choice([1, 2, 3, 4, 6, 12]) for _ in range(draw.randint(2, 4))])
    x.view(-1)[0] = math.nan
    moves, made = [], x
    for _ in range(8):
        move, made = step(made, draw)
        moves.append(move)

    def function(x: Tensor, scale: Tensor) -> Tensor:
        x = x.exp()
        for move in moves:
            x = move(x)
        return (x * scale).cos()

    module, args = Of(function), (x, torch.tensor(0.5))
    captured = capture(module, args)
    rewriting = rewrite(captured)
    (got,) = run(rewriting.capture, module, args)
    expected = module(*args)
    assert got.stride() == expected.stride()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
    restored = 1  # the output keeps its strides
    assert count(rewriting.capture, aten.clone.default) <= count(captured, aten.clone.default) + restored


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("channels_first", [False, True])
def test_multihead_attention_reads_views_of_one_projection(seed: int, channels_first: bool) -> None:
    draw = random.Random(seed)
    batch, length, heads, size = draw.randint(2, 5), draw.randint(65, 90), draw.randint(2, 5), draw.choice([4, 8, 12])
    torch.manual_seed(seed)
    attention = nn.MultiheadAttention(heads * size, heads).eval()

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> Tensor:
            x = x.permute(2, 0, 1) if channels_first else x
            return self.attention(x, x, x, need_weights=False)[0] + x

    module = Block()
    x = torch.randn((batch, heads * size, length) if channels_first else (length, batch, heads * size))
    with torch.no_grad():
        rewriting = rewrite(capture(module, (x,)))
        (attended,) = rewriting.capture.graph.graph.find_nodes(op="call_function", target=ATTEND)
        operands = attended.all_input_nodes
        assert len(operands) == 3 and len({base_of(operand) for operand in operands}) == 1
        for operand in operands:
            assert shape_of(operand) == (batch, heads, length, size)
            assert tensor_of(operand).stride()[-1] == 1
        assert count(rewriting.capture, aten.baddbmm.default) == channels_first
        (got,) = run(rewriting.capture, module, (x,))
        expected = module(x)
        truth = module.double()(x.double())
    own = (expected.double() - truth).abs().max()
    assert (got.double() - truth).abs().max() <= 4 * own + 1e-6


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("shape", "order"), [((3, 13, 70), (2, 0, 1)), ((5, 7, 11), (1, 0, 2)), ((2, 3, 5, 7), (2, 0, 1, 3))]
)
def test_rows_in_another_order(shape: tuple[int, ...], order: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(shape[order[-1]], 9, bias=bias)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = linear

        def forward(self, x: Tensor) -> Tensor:
            rows = self.linear(x.permute(order))
            return F.scaled_dot_product_attention(rows, rows, rows)

    module, x = Block(), torch.randn(shape)
    with torch.no_grad():
        rewriting = rewrite(capture(module, (x,)))
        assert "rows in memory" in rewriting.applied
        (got,) = run(rewriting.capture, module, (x,))
        expected, truth = module(x), module.double()(x.double())
    own = (expected.double() - truth).abs().max()
    assert (got.double() - truth).abs().max() <= 4 * own + 1e-6


@pytest.mark.parametrize("sizes", [(2, 9, 3, 4), (3, 5, 1, 6), (5, 7, 2, 2)])
def test_rows_are_not_gathered_to_be_scattered(sizes: tuple[int, ...]) -> None:
    """Batch first outside, sequence first inside, as in nn.MultiheadAttention."""
    batch, length, heads, size = sizes
    width = heads * size
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(width, heads, batch_first=True).eval()

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x, need_weights=False)[0] + x

    module, x = Block(), torch.randn(batch, length, width)
    with torch.no_grad():
        rewriting = rewrite(capture(module, (x,)))
        assert "rows together" in rewriting.applied
        assert count(rewriting.capture, aten.clone.default) <= 1  # where the output keeps its strides
        (got,) = run(rewriting.capture, module, (x,))
        expected, truth = module(x), module.double()(x.double())
    own = (expected.double() - truth).abs().max()
    assert (got.double() - truth).abs().max() <= 4 * own + 1e-6


def test_open_sizes_move_too() -> None:
    def function(x: Tensor) -> Tensor:
        length, batch, width = x.shape
        q = x.reshape(length, batch * 4, width // 4).transpose(0, 1).contiguous()
        return q.reshape(batch, 4, length, width // 4).transpose(1, 2).reshape(batch, length, width).exp().sum()

    module, x = Of(function), torch.randn(6, 3, 8)
    captured = capture(module, (x,), dynamic={0: {0: Range(2, 64, 6), 1: Range(2, 9, 3)}})
    rewriting = rewrite(captured)
    for other in (x, torch.randn(5, 7, 8)):
        torch.testing.assert_close(run(rewriting.capture, module, (other,))[0], module(other))


KEPT: dict[str, Callable[[Tensor], object]] = {
    "the result is the copy": lambda x: x.transpose(0, 1).contiguous(),
    "softmax reads it": lambda x: torch.softmax(x.exp().transpose(1, 2).contiguous(), -1).sum(),
    "the result is the map": lambda x: F.linear(x.transpose(0, 1), x[0, :3, :]),
    "in order, with gaps": lambda x: F.linear(x[..., :3], x[0, :3, :3]).cos().sum(),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    x = torch.randn(6, 5, 7)
    captured = capture(Of(KEPT[name]), (x,))
    rewriting = rewrite(captured)
    assert not SPARING & set(rewriting.applied)
    assert identify(rewriting.capture) == identify(captured)


@pytest.mark.parametrize("masked", ["all alike", "each its own"])
def test_masks_of_heads(masked: str) -> None:
    mask = torch.zeros(5, 5) if masked == "all alike" else torch.zeros(6, 5, 5)

    def function(x: Tensor, m: Tensor) -> Tensor:
        part = x.exp().view(5, 2, 3, 12).permute(2, 0, 1, 3).contiguous()
        q, k, v = (part[i].view(5, 6, 4).transpose(0, 1) for i in range(3))
        return torch.softmax(q @ k.transpose(1, 2) + m, -1) @ v

    module, x = Of(function), torch.randn(5, 72)
    rewriting = rewrite(capture(module, (x, mask)))
    assert ("heads" in rewriting.applied) == (masked == "all alike")
    torch.testing.assert_close(run(rewriting.capture, module, (x, mask))[0], module(x, mask))


def test_it_reads_well() -> None:
    def function(x: Tensor) -> Tensor:
        q, k, v = x.exp().view(2, 9, 3, 4, 8).permute(2, 0, 3, 1, 4).contiguous()
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 9, 32)

    captured = capture(Of(function), (torch.randn(2, 9, 96),))
    text = print_module(rewrite(captured).capture)
    assert count(captured, aten.clone.default) == 2
    assert "contiguous" not in text and "clone" not in text and text.count(".transpose(1, 2)") == 4
