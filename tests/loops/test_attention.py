"""The attention template against float64: sizes, strides, causality, and numbers that are none."""

import pytest
import torch

import kernelwright
from kernelwright.loops.attention import Attention, attention_template, print_attention


def library(attention: Attention):
    return kernelwright.compile(attention_template() + print_attention(attention), language="cpp")


def attend(q, k, v, causal=False, scale=None):
    """Calls the kernel on strided tensors of one memory each, writing (batch, row, head, component)."""
    attention = Attention(q.shape[-1], v.shape[-1], causal, "attended")
    batches, heads, queries, _ = q.shape
    out = torch.full((batches, queries, heads, v.shape[-1]), torch.nan)
    shown = out.transpose(1, 2)
    layouts = [size for tensor in (shown, q, k, v) for size in (tensor.storage_offset(), *tensor.stride()[:3])]
    bases = [
        torch.empty(0).set_(tensor.untyped_storage(), 0, (tensor.untyped_storage().nbytes() // 4,))
        for tensor in (q, k, v)
    ]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    library(attention).attended(out, *bases, *layouts, batches, heads, queries, k.shape[-2], scale)
    return shown


def exact(q, k, v, causal=False, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=causal, scale=scale
    )


def check(got, want) -> None:
    assert torch.equal(got.isnan(), want.isnan())
    assert (got.nan_to_num() - want.nan_to_num()).abs().max().item() <= 4e-6 * max(1.0, want.nan_to_num().abs().max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "batches, heads, queries, keys, head, value",
    [
        (1, 1, 1, 1, 1, 1),
        (2, 3, 33, 33, 32, 32),
        (1, 2, 130, 257, 64, 64),
        (1, 2, 257, 130, 64, 64),
        (2, 1, 7, 129, 20, 9),
        (1, 1, 64, 128, 128, 8),
        (1, 1, 31, 3, 256, 256),
    ],
)
def test_sizes(batches, heads, queries, keys, head, value, causal) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(batches, heads, queries, head), torch.randn(batches, heads, keys, head)
    v = torch.randn(batches, heads, keys, value)
    check(attend(q, k, v, causal), exact(q, k, v, causal))


def test_strides_of_one_projection() -> None:
    projected = torch.randn(50, 2, 3, 4, 16)  # (row, batch, which, head, component), as nn.MultiheadAttention has it
    q, k, v = projected.permute(2, 1, 3, 0, 4)
    check(attend(q, k, v, scale=0.3), exact(q, k, v, scale=0.3))


def test_one_head_of_keys_for_all() -> None:
    q, k, v = torch.randn(2, 4, 40, 16), torch.randn(2, 1, 40, 16), torch.randn(2, 1, 40, 16)
    check(
        attend(q, k.expand(2, 4, 40, 16), v.expand(2, 4, 40, 16)),
        exact(q, k.expand(2, 4, 40, 16), v.expand(2, 4, 40, 16)),
    )


@pytest.mark.parametrize("factor", [1e-3, 30.0, 1e4])
def test_scores_of_every_magnitude(factor) -> None:
    q, k, v = torch.randn(1, 2, 40, 16) * factor, torch.randn(1, 2, 300, 16), torch.randn(1, 2, 300, 16)
    got, want = attend(q, k, v), exact(q, k, v)
    own = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert (got - want).abs().max() <= 8 * (own - want).abs().max() + 4e-6


@pytest.mark.parametrize("special", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_numbers_that_are_none(which, special) -> None:
    tensors = {name: torch.randn(1, 1, 70, 16) for name in "qkv"}
    tensors[which][0, 0, 37, 5] = special
    q, k, v = tensors.values()
    got, want = attend(q, k, v), torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.allclose(got, want, equal_nan=True, atol=1e-5)
