"""Each rule against fp64 on random shapes, and what no rule may touch."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from road_modules import ROADS, HandAttention, Multihead, Of
from torch import Tensor, nn

from kernelwright.graph import CAUSAL, RULES, Capture, agrees, capture, identify, print_module, rewrite
from kernelwright.graph.capturing import run

NEG = torch.finfo(torch.float32).min


def written_out(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, mask: Callable[[Tensor], Tensor] = lambda scores: scores
) -> Tensor:
    return torch.softmax(mask((q @ k.transpose(-2, -1)) * scale), dim=-1) @ v


def hidden(length: int, width: int) -> Tensor:
    """True where the future is."""
    return torch.ones(length, width, dtype=torch.bool).triu(1)


ATTENTIONS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda q, k, v, m: written_out(q, k, v, scale=q.shape[-1] ** -0.5),
    "other scale": lambda q, k, v, m: written_out(q, k, v, scale=0.3),
    "no scale": lambda q, k, v, m: torch.softmax(q @ k.transpose(-1, -2), -1) @ v,
    "divided": lambda q, k, v, m: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v,
    "scaled query": lambda q, k, v, m: torch.softmax((q * 0.25) @ k.transpose(-2, -1), -1) @ v,
    "scaled both": lambda q, k, v, m: torch.softmax((q * 0.5) @ (k * 0.5).transpose(-2, -1), -1) @ v,
    "boolean mask": lambda q, k, v, m: written_out(
        q, k, v, scale=0.2, mask=lambda s: s.masked_fill(hidden(s.shape[-2], s.shape[-1]), -math.inf)
    ),
    "added mask": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: s + m),
    "mask first": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: m + s),
    "where": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: torch.where(m > -1, s, -math.inf)),
    "where not": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: torch.where(m < -1, NEG, s)),
    "finite fill": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: s.masked_fill(m < -1, NEG)),
}


def shapes(seed: int) -> tuple[tuple[int, ...], int, int, int]:
    draw = random.Random(seed)
    batch = tuple(draw.randint(1, 3) for _ in range(draw.choice([1, 2])))
    return batch, draw.randint(2, 40), draw.randint(2, 40), draw.choice([4, 8, 16, 20])


def inputs(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    batch, length, width, size = shapes(seed)
    q, k, v = (torch.randn(*batch, rows, size) for rows in (length, width, width))
    mask = torch.randn(length, width)
    mask[:, 0] = 0.5  # hides no row
    return q, k, v, mask


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, seed: int) -> None:
    """The error against fp64 is at most a few times that of the reference, and the scores are gone."""
    args = inputs(seed)
    module = Of(ATTENTIONS[name])
    rewriting = rewrite(capture(module, args))
    assert "attention" in rewriting.applied
    assert "_softmax" not in identify(rewriting.capture).text
    truth = module(*(arg.double() for arg in args))
    (got,) = run(rewriting.capture, module, args)
    expected = module(*args)
    assert got.stride() == expected.stride()
    own = (expected.double() - truth).abs().max()
    assert (got.double() - truth).abs().max() <= 4 * own + 1e-6


@pytest.mark.parametrize("kind", ["added", "boolean"])
def test_rows_that_hide_everything_stay_nan(kind: str) -> None:
    q, k, v, mask = inputs(5)
    mask[1] = -math.inf
    functions = {
        "added": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: s + m),
        "boolean": lambda q, k, v, m: written_out(q, k, v, scale=0.2, mask=lambda s: s.masked_fill(m < -9, -math.inf)),
    }
    module = Of(functions[kind])
    rewriting = rewrite(capture(module, (q, k, v, mask)))
    assert "attention" in rewriting.applied
    assert module(q, k, v, mask)[..., 1, :].isnan().all()
    assert agrees(rewriting.capture, module, (q, k, v, mask)) < 1e-5


@pytest.mark.parametrize("place", ["query", "key and value"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["plain", "added mask"])
def test_nan_and_infinity_spread_as_before(name: str, value: float, place: str) -> None:
    q, k, v, mask = inputs(4)
    for tensor in (q,) if place == "query" else (k, v):
        tensor[..., -1, 0] = value
    module = Of(ATTENTIONS[name])
    (got,) = run(rewrite(capture(module, (q, k, v, mask))).capture, module, (q, k, v, mask))
    torch.testing.assert_close(got, module(q, k, v, mask), equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_behind_a_filling_mask_nan_may_spread_but_is_never_lost(value: float) -> None:
    q, k, v, mask = inputs(4)
    for tensor in (k, v):
        tensor[..., -1, 0] = value
    module = Of(ATTENTIONS["boolean mask"])
    (got,) = run(rewrite(capture(module, (q, k, v, mask))).capture, module, (q, k, v, mask))
    expected = module(q, k, v, mask)
    assert expected.isnan().any() and bool(got[expected.isnan()].isnan().all())
    v[..., -1, :] = math.nan  # as where keys and values are projections of one input
    (got,) = run(rewrite(capture(module, (q, k, v, mask))).capture, module, (q, k, v, mask))
    torch.testing.assert_close(got, module(q, k, v, mask), equal_nan=True)


REFUSED: dict[str, Callable[..., Any]] = {
    "weights used": lambda q, k, v, m: (w := torch.softmax(q @ k.mT, -1)) @ v + w.sum(),
    "softmax over queries": lambda q, k, v, m: torch.softmax(q @ k.mT, -2) @ v,
    "small finite fill": lambda q, k, v, m: torch.softmax((q @ k.mT).masked_fill(m < 0, -1e4), -1) @ v,
    "two masks": lambda q, k, v, m: torch.softmax(q @ k.mT + m + m.exp(), -1) @ v,
    "mask under the scale": lambda q, k, v, m: torch.softmax((q @ k.mT + m) * 0.5, -1) @ v,
    "negative scale": lambda q, k, v, m: torch.softmax(q @ k.mT * -0.5, -1) @ v,
    "broadcast": lambda q, k, v, m: torch.softmax(q @ k[:1].mT, -1) @ v,
    "something between": lambda q, k, v, m: torch.softmax(torch.tanh(q @ k.mT), -1) @ v,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_attention(name: str) -> None:
    q, k, v = (torch.randn(2, 3, 8, 4) for _ in range(3))
    assert "attention" not in rewrite(capture(Of(REFUSED[name]), (q, k, v, torch.randn(8, 8)))).applied


class TestCausal:
    def test_a_constant_mask_of_the_future(self) -> None:
        q, k, v = (torch.randn(2, 3, 9, 4) for _ in range(3))
        module = Of(ATTENTIONS["boolean mask"])
        rewriting = rewrite(capture(module, (q, k, v, q)), (*RULES, CAUSAL))
        assert "causal" in rewriting.applied
        assert "is_causal=True" in print_module(rewriting.capture)
        assert agrees(rewriting.capture, module, (q, k, v, q)) < 1e-6

    @pytest.mark.parametrize("diagonal", [0, 2])
    def test_other_masks_are_not_it(self, diagonal: int) -> None:
        def shifted(scores: Tensor) -> Tensor:
            future = torch.ones(9, 9, dtype=torch.bool).triu(diagonal)
            return scores.masked_fill(future, -math.inf)

        q, k, v = (torch.randn(2, 3, 9, 4) for _ in range(3))
        module = Of(lambda q, k, v: written_out(q, k, v, scale=1.0, mask=shifted))
        rewriting = rewrite(capture(module, (q, k, v)), (*RULES, CAUSAL))
        assert rewriting.applied.count("attention") == 1 and "causal" not in rewriting.applied
        assert agrees(rewriting.capture, module, (q, k, v)) < 1e-6

    def test_a_buffer_is_no_constant(self) -> None:
        rewriting = rewrite(capture(HandAttention().eval(), (torch.randn(5, 16, 32),)), (*RULES, CAUSAL))
        assert "attention" in rewriting.applied and "causal" not in rewriting.applied

    def test_it_is_not_among_the_sound_ones(self) -> None:
        assert CAUSAL not in RULES
        assert all(rule.soundness for rule in (*RULES, CAUSAL))


IDENTITIES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "times one": (lambda x: x * 1, "neutral"),
    "over one": (lambda x: x / 1.0, "neutral"),
    "plus zero": (lambda x: 0 + x, "neutral"),
    "minus zero": (lambda x: x - 0, "neutral"),
    "to the first": (lambda x: x**1, "neutral"),
    "turned twice": (lambda x: x.permute(1, 2, 0).permute(2, 0, 1), "double permutation"),
    "turned twice otherwise": (lambda x: x.permute(1, 2, 0).permute(1, 2, 0), "double permutation"),
    "viewed twice": (lambda x: x.reshape(-1).reshape(3, 2, -1), "double view"),
    "wider and back": (lambda x: x.double().float(), "cast there and back"),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identities(name: str) -> None:
    function, rule = IDENTITIES[name]
    module = Of(lambda x: function(x.exp()).cos())
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0]).repeat(4).reshape(2, 3, 4)
    captured = capture(module, (x,))
    rewriting = rewrite(captured)
    assert rule in rewriting.applied
    assert len(rewriting.capture.graph.graph.nodes) < len(captured.graph.graph.nodes)
    torch.testing.assert_close(run(rewriting.capture, module, (x,))[0], module(x), equal_nan=True)


KEPT: dict[str, Callable[[Tensor], Tensor]] = {
    "promotes integers": lambda x: (x > 0).long() * 1.0,
    "widens the shape": lambda x: x.sum() + x * 0,
    "narrower and back": lambda x: x.bfloat16().float(),
    "other number": lambda x: x * 2 + 1,
    "alpha": lambda x: torch.add(x, 0, alpha=2),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_identity_stays(name: str) -> None:
    module = Of(lambda x: KEPT[name](x).cos())
    captured = capture(module, (torch.randn(2, 3),))
    assert identify(rewrite(captured).capture).digest == identify(captured).digest


def test_dropout_of_nothing() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.0)).train()
    rewriting = rewrite(capture(module, (torch.randn(4, 6),)))
    assert "dropout" not in print_module(rewriting.capture)


def test_multihead_attention_with_weights_nobody_takes() -> None:
    module = Multihead(need_weights=True).eval()
    x = torch.randn(5, 16, 32)
    rewriting = rewrite(capture(module, (x,)))
    assert rewriting.applied.count("attention") == 1
    assert "torch.ops" not in print_module(rewriting.capture)
    assert agrees(rewriting.capture, module, (x,)) < 1e-6


@pytest.mark.parametrize("name", ROADS)
def test_rewriting_keeps_every_module(name: str) -> None:
    module, x = ROADS[name].make().eval(), torch.randn(ROADS[name].shape)
    captured = capture(module, (x,))
    before = identify(captured).text
    assert agrees(rewrite(captured, (*RULES, CAUSAL)).capture, module, (x,)) < 1e-6
    assert identify(captured).text == before


def test_open_sizes_are_rewritten_too() -> None:
    from kernelwright.records import Range

    module = Of(lambda q, k, v: written_out(q, k, v, scale=0.5))
    q, k, v = (torch.randn(2, 3, 8, 4) for _ in range(3))
    dynamic = {index: {0: Range(2, 8, 2)} for index in range(3)}
    rewriting = rewrite(capture(module, (q, k, v), dynamic=dynamic))
    assert "attention" in rewriting.applied
    others = tuple(torch.randn(5, 3, 8, 4) for _ in range(3))
    assert agrees(rewriting.capture, module, others) < 1e-6


def test_no_rule_no_change() -> None:
    captured: Capture = capture(nn.Linear(6, 6), (torch.randn(4, 6),))
    rewriting = rewrite(captured)
    assert rewriting.applied == () and identify(rewriting.capture) == identify(captured)
