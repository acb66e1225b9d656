"""Printed modules compute what the graph does, hold the same state and read well."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from road_modules import CALLS, ROADS, Of
from torch import Tensor, nn

from kernelwright.graph import Capture, KernelCall, capture, load_text, print_module
from kernelwright.graph.reference import flatten_call
from kernelwright.records import Range


def built(captured: Capture, module: nn.Module, monkeypatch: pytest.MonkeyPatch, base: str | None) -> nn.Module:
    """The printed module with the weights of `module`."""
    text = print_module(captured, base=base)
    if base:
        reference = ModuleType("reference")
        reference.Model = _Same(module)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "reference", reference)
    made = load_text(text, "printed").ModelNew().train(module.training)
    made.load_state_dict(module.state_dict())
    assert set(made.state_dict()) == set(module.state_dict())
    return made


def _Same(module: nn.Module) -> type[nn.Module]:
    """A class whose instances are copies of `module`."""
    import copy

    def init(self: nn.Module) -> None:
        self.__dict__.update(copy.deepcopy(module).__dict__)

    return type("Model", (type(module),), {"__init__": init})


def leaves(value: Any) -> list[Tensor]:
    return flatten_call([value], {})[0]


@pytest.mark.parametrize("base", ["Model", None])
@pytest.mark.parametrize("name", [*CALLS, *ROADS])
def test_text_computes_what_the_module_does(name: str, base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ROADS:
        module, args, kwargs = ROADS[name].make().eval(), (torch.randn(ROADS[name].shape),), {}
    else:
        module, args, kwargs = CALLS[name]
    made = built(capture(module, args, kwargs), module, monkeypatch, base)
    with torch.no_grad():
        got, expected = made(*args, **kwargs), module(*args, **kwargs)
    assert isinstance(got, dict) == isinstance(expected, dict)
    assert len(leaves(got)) == len(leaves(expected))
    for a, b in zip(leaves(got), leaves(expected), strict=True):
        torch.testing.assert_close(a, b)
        if name != "multihead":  # whose fast path in eager mode lays its result out otherwise
            assert a.stride() == b.stride()


@pytest.mark.parametrize("name", ROADS)
def test_open_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, shape = ROADS[name].make().eval(), ROADS[name].shape
    captured = capture(module, (torch.randn(shape),), dynamic={0: {0: Range(2, 16, shape[0])}})
    made = built(captured, module, monkeypatch, "Model")
    assert "d0 = x.shape[0]" in print_module(captured) or "d0" not in print_module(captured)
    for batch in (2, 9):
        x = torch.randn(batch, *shape[1:])
        with torch.no_grad():
            torch.testing.assert_close(made(x), module(x))


OPERATORS = {
    "arithmetic": lambda x, y: ((x + 2) * y - x / 3 + x // 2) ** 2 - x**-0.5 + 2**x,
    "comparison": lambda x, y: ((x > y) & (x < 1)) | ~(x == y) ^ (y >= 0.5),
    "promotion": lambda x, y: (x > 0) * 2 + (x > 0).sum(1, keepdim=True) / 3 + x.double().mean(),
    "reductions": lambda x, y: (x.amax(0), y.amin((0, 1)), x.var(1), x.std(), x.argmax(1), y.sum(), x.any(1), x.norm()),
    "activations": lambda x, y: F.elu(x) + F.silu(y) + F.mish(x) + F.softplus(y) + F.leaky_relu(x) + F.hardswish(y),
    "more activations": lambda x, y: F.gelu(x, approximate="tanh") + F.relu6(y) + F.selu(x) + F.logsigmoid(y),
    "indexing": lambda x, y: (x[1:, ::2], x[:, -1], y[torch.tensor([0, 2])], x[:, None].expand(4, 3, 6), x.flip(1)),
    "shapes": lambda x, y: torch.cat([x, y], 1).view(4, 2, 6).transpose(1, 2).reshape(-1, 2).unsqueeze(0).squeeze(0),
    "masks": lambda x, y: x.masked_fill(y > 0, float("-inf")).softmax(-1) + torch.tril(y) + y.clamp(min=0),
    "factories": lambda x, y: x + torch.arange(6) + torch.zeros_like(y) + torch.full((6,), 2.0) + torch.ones(4, 1),
    "casts": lambda x, y: x.to(torch.bfloat16).float() + y.half().to(torch.float32),
    "products": lambda x, y: torch.addmm(x @ y.t(), x, y.t(), alpha=0.5) + torch.einsum("ij,kj->ik", x, y),
    "batched": lambda x, y: torch.baddbmm(x[None, :, :1], x[None], y.t()[None], beta=0.3),
    "cumulative": lambda x, y: x.cumsum(1) + y.sort(1).values + torch.topk(x, 6).values,
    "padding": lambda x, y: F.pad(x, (1, 2), value=3.0)[:, :6] + F.pad(y, (1, 1))[:, 1:7],
    "infinities": lambda x, y: torch.where(x > 0, float("inf"), float("nan")).nan_to_num(1.0) + y,
}


@pytest.mark.parametrize("name", OPERATORS)
def test_spellings_are_exact(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    args = (torch.rand(4, 6) + 0.5, torch.randn(4, 6))
    module = Of(OPERATORS[name])
    made = built(capture(module, args), module, monkeypatch, None)
    for a, b in zip(leaves(made(*args)), leaves(module(*args)), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, equal_nan=True)


class TestImages:
    @pytest.mark.parametrize(
        "layer",
        [
            nn.Conv2d(4, 6, 3, stride=2, padding=(1, 0), dilation=1, groups=2),
            nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1),
            nn.MaxPool2d(2),
            nn.AvgPool2d(3, 2, 1),
            nn.AdaptiveAvgPool2d(3),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4),
            nn.BatchNorm2d(4),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Upsample(scale_factor=2),
            nn.ReflectionPad2d(1),
            nn.PReLU(4),
            nn.PixelShuffle(2),
        ],
        ids=lambda layer: type(layer).__name__,
    )
    def test_layers(self, layer: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
        layer = layer.eval()
        x = torch.randn(2, 4, 8, 8)
        captured = capture(layer, (x,))
        with torch.no_grad():
            torch.testing.assert_close(built(captured, layer, monkeypatch, None)(x), layer(x))
        if not isinstance(layer, (nn.Upsample, nn.ReflectionPad2d, nn.PReLU, nn.InstanceNorm2d)):
            assert "torch.ops" not in print_module(captured)


def test_mutations_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).train()
    x = torch.randn(4, 6)
    made = built(capture(module, (x,)), module, monkeypatch, None)
    torch.testing.assert_close(made(x), module(x))
    torch.testing.assert_close(made.state_dict(), module.state_dict())


def test_ties_are_kept() -> None:
    text = print_module(capture(ROADS["tied"].make(), (torch.randn(7, 32),)), base=None)
    made = load_text(text, "tied").ModelNew()
    assert made.a.weight is made.b.weight


def test_large_intermediates_are_let_go() -> None:
    small, large = (print_module(capture(Of(lambda x: (x + 1) @ x.t()), (torch.ones(n, n),))) for n in (8, 1024))
    assert "del " not in small and "del total" in large


def test_it_reads_like_a_persons() -> None:
    text = print_module(capture(ROADS["causal_attention"].make(), (torch.randn(5, 16, 32),)))
    assert (
        text
        == """import torch
import torch.nn.functional as F
from reference import Model


class ModelNew(Model):
    def forward(self, x):
        linear = F.linear(x, self.qkv.weight, self.qkv.bias)
        turned = linear.reshape(5, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        part = turned[0]
        part2 = turned[1]
        part3 = turned[2]
        attended = F.scaled_dot_product_attention(part, part2, part3, is_causal=True)
        shaped = attended.transpose(1, 2).reshape(5, 16, 32)
        return shaped
"""
    )


def test_kernels_are_called_with_outputs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generated kernel takes its outputs, then what its node holds; here a Python function stands for it."""
    module = Of(lambda x, y: torch.softmax(x, -1) * y)
    captured = capture(module, (torch.randn(4, 6), torch.randn(4, 6)), dynamic=None)
    graph = captured.graph.graph
    x, y = graph.find_nodes(op="placeholder")
    (output,) = graph.find_nodes(op="output")
    (product,) = output.args[0]
    with graph.inserting_before(output):
        call = graph.call_function(KernelCall("softmax_mul"), (x, y, 4, 6))
    call.meta["val"] = product.meta["val"]
    product.replace_all_uses_with(call)
    text = print_module(captured, base=None)
    assert "softmax_mul = torch.empty((4, 6), dtype=torch.float32)" in text
    assert "self.lib.softmax_mul(softmax_mul, " in text and ", 4, 6)" in text
    assert 'kernelwright.compile(kernelwright.source("kernels.cpp"), language="cpp")' in text
    assert ".contiguous()" in text


def test_what_never_changes_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Tensor) -> Tensor:
        future = torch.ones(9, 9, dtype=torch.bool).triu(1)
        decay = torch.arange(9) * 0.5 + torch.tensor([0.0, 1.0, 2.0] * 3)
        return torch.softmax((x + decay).masked_fill(future, -1e9), -1)

    module, x = Of(function), torch.randn(4, 9, 9)
    made = built(capture(module, (x,)), module, monkeypatch, "Model")
    forward = print_module(capture(module, (x,))).partition("def forward")[2]
    assert "self.fixed_" in forward and "arange" not in forward and "full" not in forward
    assert "arange" in print_module(capture(module, (x,)), base=None).partition("def forward")[2]
    torch.testing.assert_close(made(x), module(x), rtol=0, atol=0)


def test_what_a_caller_may_hold_or_sizes_decide_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Of(lambda x: (x + torch.arange(x.shape[0])[:, None], torch.zeros(3)))
    captured = capture(module, (torch.randn(6, 2),), dynamic={0: {0: Range(2, 64, 6)}})
    made, x = built(captured, module, monkeypatch, "Model"), torch.randn(5, 2)
    assert "fixed_" not in print_module(captured)
    made(x)[1].add_(1)
    torch.testing.assert_close(made(x), module(x))


DEFINES_ITS_RESULT = """
from typing import NamedTuple

import torch
from torch import nn


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Model(nn.Module):
    def forward(self, x):
        return Pair(x.cos(), x.sin())
"""


def test_a_class_of_the_problems_own_text_is_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, x = load_text(DEFINES_ITS_RESULT, "problem"), torch.randn(3)
    captured = capture(reference.Model(), (x,))
    monkeypatch.setitem(sys.modules, "reference", reference)
    got = load_text(print_module(captured), "printed").ModelNew()(x)
    assert type(got) is reference.Pair
    assert type(load_text(print_module(captured, base=None), "alone").ModelNew()(x)) is tuple


@pytest.mark.parametrize("base", ["Model", None])
def test_results_of_transformers_are_of_their_class(base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, vocab_size=50
    )
    module, ids = transformers.BertModel(config).eval(), torch.randint(0, 50, (2, 7))
    made = built(capture(module, (), {"input_ids": ids}), module, monkeypatch, base)
    with torch.no_grad():
        got, expected = made(input_ids=ids), module(input_ids=ids)
    assert type(got) is type(expected) and list(got) == list(expected)
    for a, b in zip(got.to_tuple(), expected.to_tuple(), strict=True):
        torch.testing.assert_close(a, b)
