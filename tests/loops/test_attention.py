"""The attention template against float64: sizes, strides, causality, and numbers that are none."""

import pytest
import torch

import kernelwright
from kernelwright.loops.attention import Attention, attention_template, print_attention


def library(attention: Attention):
    return kernelwright.compile(attention_template() + print_attention(attention), language="cpp")


def attend(q, k, v, causal=False, scale=None, mask=None):
    """Calls the kernel on strided tensors of one memory each, writing (batch, row, head, component)."""
    kind = "" if mask is None else "kept" if mask.dtype is torch.bool else "added"
    attention = Attention(q.shape[-1], v.shape[-1], causal, kind, "attended")
    batches, heads, queries, _ = q.shape
    out = torch.full((batches, queries, heads, v.shape[-1]), torch.nan)
    shown = out.transpose(1, 2)
    layouts = [size for tensor in (shown, q, k, v) for size in (tensor.storage_offset(), *tensor.stride()[:3])]
    tensors = [q, k, v]
    if mask is not None:
        tensors.append(mask.expand(batches, heads, queries, k.shape[-2]))
        layouts += [tensors[-1].storage_offset(), *tensors[-1].stride()]
    bases = [
        torch.empty(0, dtype=tensor.dtype).set_(
            tensor.untyped_storage(), 0, (tensor.untyped_storage().nbytes() // tensor.itemsize,)
        )
        for tensor in tensors
    ]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    shared = heads // k.shape[1]
    library(attention).attended(out, *bases, *layouts, batches, heads, shared, queries, k.shape[-2], scale)
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


def masks(batches: int, queries: int, keys: int) -> dict[str, torch.Tensor]:
    """Masks as models make them, by their words."""
    torch.manual_seed(1)
    kept = torch.rand(batches, 1, 1, keys) < 0.7
    kept[..., 0] = True
    future = torch.ones(queries, keys).tril(keys - queries).bool()
    return {
        "padding": kept,
        "padding, added": torch.zeros(kept.shape).masked_fill(~kept, torch.finfo(torch.float32).min),
        "causal": future,
        "causal and padding": (future & kept) | torch.eye(queries, keys).bool(),
        "causal, added": torch.zeros(queries, keys).masked_fill(~future, -torch.inf),
        "everything": torch.ones(1, 1, 1, 1, dtype=torch.bool),
        "bias of each head": torch.randn(1, 4, queries, keys),
        "across": (torch.rand(batches, 1, keys, queries) < 0.9).transpose(2, 3),
    }


@pytest.mark.parametrize("name", list(masks(1, 8, 8)))
@pytest.mark.parametrize("shared", [1, 2])
def test_masks(name, shared) -> None:
    q = torch.randn(2, 4, 70, 16)
    k, v = torch.randn(2, 4 // shared, 150, 16), torch.randn(2, 4 // shared, 150, 16)
    mask = masks(2, 70, 150)[name]
    want = torch.nn.functional.scaled_dot_product_attention(
        q.double(),
        k.repeat_interleave(shared, 1).double(),
        v.repeat_interleave(shared, 1).double(),
        mask if mask.dtype is torch.bool else mask.double(),
    )
    check(attend(q, k, v, mask=mask), want)


@pytest.mark.parametrize("fill", [False, -torch.inf, torch.finfo(torch.float32).min])
def test_rows_that_see_nothing_are_those_of_torch(fill) -> None:
    q, k, v = (torch.randn(1, 2, 40, 16) for _ in range(3))
    mask = torch.ones(1, 1, 40, 40, dtype=torch.bool) if fill is False else torch.zeros(1, 1, 40, 40)
    mask[..., 5:9, :] = fill
    mask[..., 20, 3:] = fill
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
    check(attend(q, k, v, mask=mask), want)
    assert want.isfinite().all()


@pytest.mark.parametrize("which", ["q", "k", "v"])
def test_numbers_that_are_none_under_a_mask(which) -> None:
    tensors = {name: torch.randn(1, 1, 70, 16) for name in "qkv"}
    tensors[which][0, 0, 37, 5] = torch.nan
    q, k, v = tensors.values()
    for mask in (masks(1, 70, 70)["padding"], masks(1, 70, 70)["causal, added"]):
        want = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
        assert torch.equal(attend(q, k, v, mask=mask).isnan(), want.isnan())
