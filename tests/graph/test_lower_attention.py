"""scaled_dot_product_attention as a kernel: read where it lies, written where it is wanted."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.graph import capture, print_module, rewrite
from kernelwright.graph.lower import lower
from kernelwright.records import Candidate, Range, SourceFile
from kernelwright.targets import load_candidate, prepare


class Projected(nn.Module):
    """One projection for q, k and v, as in nn.MultiheadAttention."""

    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.inward = nn.Linear(48, 144)
        self.outward = nn.Linear(48, 48)
        self.causal = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = self.inward(x).view(rows, length, 3, 3, 16).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.outward(mixed.transpose(1, 2).reshape(rows, length, 48))


class Given(nn.Module):
    """q, k and v as they come."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, **self.options)


def lowered(module: nn.Module, args, dynamic=None):
    """The lowering, and the printed module on the reference's weights."""
    lowering = lower(rewrite(capture(module.eval(), args, dynamic=dynamic)).capture)
    text = print_module(lowering.capture, base=None)
    candidate = Candidate("t", "cpp@cpu", (SourceFile("model.py", text), SourceFile("kernels.cpp", lowering.text())))
    made = load_candidate(candidate, [])
    made.load_state_dict(module.state_dict())
    prepare(made)
    return lowering, text, made.eval()


def agree(made: nn.Module, module: nn.Module, *args: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(made(*args), module(*args), rtol=1e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("causal", [False, True])
def test_a_projection_is_read_in_place(causal: bool) -> None:
    module, x = Projected(causal), torch.randn(2, 37, 48)
    lowering, text, made = lowered(module, (x,))
    (attention,) = lowering.attentions
    assert (attention.head, attention.value, attention.causal) == (16, 16, causal)
    assert "self.lib.attended(attended, linear, linear, linear, 0," in text
    agree(made, module, x)
    agree(made, module, x[:, :, :24].repeat(1, 1, 2))


def test_open_sizes() -> None:
    module, x = Projected(), torch.randn(2, 40, 48)
    _, _, made = lowered(module, (x,), {0: {0: Range(1, 8, 2), 1: Range(8, 512, 40)}})
    for rows, length in ((2, 40), (1, 9), (3, 131)):
        agree(made, module, torch.randn(rows, length, 48))


@pytest.mark.parametrize(
    "shapes",
    [[(2, 3, 20, 8)] * 3, [(1, 2, 20, 8), (1, 2, 5, 8), (1, 2, 5, 8)], [(2, 2, 9, 7)] * 3],
    ids=["plain", "cross", "odd"],
)
@pytest.mark.parametrize("options", [{}, {"scale": 0.5}, {"is_causal": True}], ids=["default", "scale", "causal"])
def test_arguments_of_their_own(shapes, options) -> None:
    module, args = Given(**options), [torch.randn(shape) for shape in shapes]
    lowering, _, made = lowered(module, args)
    assert lowering.attentions
    agree(made, module, *args)
    agree(made, module, *(arg.transpose(1, 2).contiguous().transpose(1, 2) for arg in args))
    args[1][..., 3, 0] = torch.nan
    agree(made, module, *args)


@pytest.mark.parametrize(
    "shapes, options",
    [
        ([(1, 2, 3, 8)] * 3, {}),
        ([(1, 2, 20, 8), (1, 2, 20, 8), (1, 2, 20, 24)], {"is_causal": True}),
        ([(2, 20, 8)] * 3, {}),
    ],
    ids=["few queries", "causal, wide values", "3-D"],
)
def test_what_stays_with_the_library(shapes, options) -> None:
    module, args = Given(**options), [torch.randn(shape) for shape in shapes]
    lowering, _, made = lowered(module, args)
    assert not lowering.attentions
    agree(made, module, *args)


class Masked(nn.Module):
    """Grouped heads as transformers writes them, under a padding mask, behind one projection."""

    def __init__(self, added: bool, repeated: bool) -> None:
        super().__init__()
        self.inward = nn.Linear(64, 128)
        self.added, self.repeated = added, repeated

    def forward(self, x: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = self.inward(x).view(rows, length, 8, 16).transpose(1, 2).split([4, 2, 2], 1)
        mask = shown[:, None, None, :] & torch.ones(length, length, dtype=torch.bool).tril()
        if self.added:
            mask = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        if not self.repeated:
            return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        k, v = (x[:, :, None].expand(rows, 2, 2, length, 16).reshape(rows, 4, length, 16) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, mask)


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("repeated", [False, True], ids=["grouped", "repeated"])
@pytest.mark.parametrize("added", [False, True], ids=["kept", "added"])
def test_masks_and_shared_heads(added: bool, repeated: bool, dynamic: bool) -> None:
    module = Masked(added, repeated)
    ranges = {0: {0: Range(1, 8, 2), 1: Range(8, 512, 40)}, 1: {0: Range(1, 8, 2), 1: Range(8, 512, 40)}}
    lowering, text, made = lowered(module, given(2, 40), ranges if dynamic else None)
    (attention,) = lowering.attentions
    assert attention.mask == ("added" if added else "kept") and "repeat" not in text and "scaled_dot" not in text
    assert text.count("expand") == 0
    for rows, length in ((2, 40), (1, 9), (3, 131)) if dynamic else ((2, 40),):
        agree(made, module, *given(rows, length))


def given(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    shown = torch.rand(rows, length) < 0.8
    shown[:, 0] = True
    return torch.randn(rows, length, 64), shown


@pytest.mark.parametrize(
    "mask",
    [torch.ones(20, 20).tril().bool(), torch.randn(2, 1, 20), torch.randn(1, 2, 20, 20).transpose(2, 3)],
    ids=["future", "one row", "turned"],
)
def test_a_constant_mask(mask: torch.Tensor) -> None:
    module, args = Given(attn_mask=mask), [torch.randn(1, 2, 20, 8)] * 3
    lowering, _, made = lowered(module, args)
    assert lowering.attentions[0].mask
    agree(made, module, *args)
