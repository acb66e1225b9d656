"""Both roads give one identity, weights and names do not matter, and a dynamic text covers its static ones."""

from typing import Any

import pytest
import torch
from road_modules import ROADS, LinearGelu, Multihead, Of, Road, Tied
from torch import Tensor, fx, nn

from kernelwright.graph import Capture, capture, capture_dynamo, distinct_outputs, fit, identify, specialise
from kernelwright.records import Range


def module_road(road: Road, *, dynamic: bool = False, batch: int | None = None) -> Capture:
    torch.manual_seed(0)
    shape = (batch or road.shape[0], *road.shape[1:])
    ranges = {0: {0: Range(2, 64, shape[0])}} if dynamic else None
    return capture(road.make().eval(), (torch.randn(shape),), dynamic=ranges)


def dynamo_road(module: nn.Module, x: Tensor, *, dynamic: bool = False) -> Capture:
    captured: list[Capture] = []

    def backend(graph: fx.GraphModule, example_inputs: list[Any]) -> Any:
        captured.append(capture_dynamo(graph, example_inputs))
        return graph.forward

    torch._dynamo.reset()
    if dynamic:
        torch._dynamo.mark_dynamic(x, 0)
    torch.compile(module, backend=backend)(x)
    assert len(captured) == 1
    return captured[0]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ROADS)
def test_both_roads_meet(name: str, dynamic: bool) -> None:
    road = ROADS[name]
    module = identify(module_road(road, dynamic=dynamic))
    dynamo = identify(dynamo_road(road.make().eval(), torch.randn(road.shape), dynamic=dynamic))
    assert module.text == dynamo.text
    assert module.dynamic_text == dynamo.dynamic_text
    assert (module.dynamic_text is not None) == dynamic
    weights = [item for item in module.inputs if item.role in ("parameter", "buffer")]
    assert weights == [item for item in dynamo.inputs if item.role in ("parameter", "buffer")]


@pytest.mark.parametrize("name", ROADS)
def test_dynamic_text_specialises_to_the_static_one(name: str) -> None:
    road = ROADS[name]
    dynamic = identify(module_road(road, dynamic=True)).dynamic_text
    assert dynamic is not None
    for batch in (road.shape[0], 11):
        static = identify(module_road(road, batch=batch)).text
        assert specialise(dynamic, [batch]).splitlines() == static.splitlines()
        assert fit(dynamic, static) == (batch,)
    assert fit(dynamic, identify(module_road(ROADS["linear_gelu"], batch=3)).text) is None or name == "linear_gelu"


def test_gradients_and_autocast_at_the_call_change_nothing_but_autocast() -> None:
    road = ROADS["linear_gelu"]
    plain = identify(module_road(road))
    with torch.no_grad():
        assert identify(dynamo_road(road.make().eval(), torch.randn(road.shape))).digest == plain.digest
    module = identify(capture(LinearGelu(), (torch.randn(7, 32),), autocast="bfloat16"))
    with torch.autocast("cpu", torch.bfloat16):
        dynamo = identify(dynamo_road(LinearGelu(), torch.randn(7, 32)))
    assert module.digest == dynamo.digest != plain.digest
    assert "bfloat16" in module.text


def test_weights_do_not_matter_but_constants_do() -> None:
    first, second = Tied(), Tied()
    x = torch.randn(7, 32)
    assert identify(capture(first, (x,))).digest == identify(capture(second, (x,))).digest
    second.table = torch.arange(32.0) + 1
    assert identify(capture(first, (x,))).digest != identify(capture(second, (x,))).digest


def test_ties_matter() -> None:
    tied, untied = Tied(), Tied()
    untied.b.weight = nn.Parameter(untied.a.weight.detach().clone())
    x = torch.randn(7, 32)
    assert identify(capture(tied, (x,))).digest != identify(capture(untied, (x,))).digest


def test_averaged_weights_of_attention_vanish_where_nobody_takes_them() -> None:
    """nn.MultiheadAttention computes them by default; as dead results they are not part of the graph."""
    x = torch.randn(5, 16, 32)
    text = identify(capture(Multihead(need_weights=True).eval(), (x,))).text
    assert "aten.mean" not in text and text.count("_softmax") == 1


class Copies(nn.Module):
    def __init__(self, copy: bool) -> None:
        super().__init__()
        self.copy = copy

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 2).t()
        return (y.contiguous() if self.copy else y), x.clone()


def test_copies_at_the_border_belong_to_the_signature_except_copies_of_inputs() -> None:
    x = torch.randn(3, 4)
    with_copy, without = capture(Copies(True), (x,)), capture(Copies(False), (x,))
    assert identify(with_copy).text == identify(without).text
    assert "aten.clone.default(i0)" in identify(without).text
    assert distinct_outputs(without) == (0, 1)


class Twice(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x + 1
        return y, x, y


def test_repeated_and_passed_through_outputs_are_listed_once_or_not() -> None:
    x = torch.randn(3)
    module = capture(Twice(), (x,))
    assert distinct_outputs(module) == (0,)
    assert identify(module).digest == identify(dynamo_road(Twice(), x)).digest


@pytest.mark.parametrize("text", ["x[{__import__('os')}]", "x[{d0.real}]", "x[{d9}]"])
def test_texts_are_data(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        specialise(text, [3])


def test_dimensions_are_counted_from_the_first() -> None:
    last = Of(
        lambda x: (
            torch.softmax(x, -1).transpose(-2, -1).sum(-1) + torch.cat([x, x], -2).unsqueeze(-1).amax((-1, -3, -2))
        )
    )
    first = Of(lambda x: torch.softmax(x, 2).transpose(1, 2).sum(2) + torch.cat([x, x], 1).unsqueeze(3).amax((3, 1, 2)))
    x = torch.randn(7, 7, 7)
    assert identify(capture(last, (x,))).text == identify(capture(first, (x,))).text


def test_equal_calls_merge_however_they_count() -> None:
    captured = capture(Of(lambda x: torch.softmax(x, -1) * torch.softmax(x, 1)), (torch.randn(3, 5),))
    assert identify(captured).text.count("_softmax") == 1
