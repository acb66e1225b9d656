"""Large graphs in pieces: equal layers are one region, and the stitched whole is the module again."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from test_printing import _Same
from torch import Tensor, fx, nn

from kernelwright.graph import (
    Capture,
    agrees,
    build_reference,
    capture,
    capture_dynamo,
    capture_problem,
    identify,
    load_text,
    partition,
    print_module,
    stitch,
)
from kernelwright.graph.node import output_of
from kernelwright.records import Candidate, Range, SourceFile

transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}


def bert(attention: str = "sdpa") -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, vocab_size=100, attn_implementation=attention)
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[1, 10:] = 0
    return transformers.BertModel(config).eval(), (torch.randint(0, 100, (2, 16)),), {"attention_mask": mask}


def vit() -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    config = transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)
    return transformers.ViTModel(config).eval(), (torch.randn(2, 3, 32, 32),), {}


MODELS = {"bert": bert, "vit": vit}


class Stack(nn.Module):
    """Layers with a mask that all of them read, between two that differ."""

    def __init__(self, depth: int = 4, width: int = 16) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 4)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(depth))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        kept = (mask > 0).to(x.dtype)
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x) * kept
        return self.last(x)


def names_served(pieces: tuple[Any, ...]) -> list[list[str]]:
    return [list(piece.weights.values()) for piece in pieces]


@pytest.mark.parametrize("name", MODELS)
def test_real_models_survive_capture_and_print(name: str) -> None:
    module, args, kwargs = MODELS[name]()
    captured = capture(module, args, kwargs)
    assert agrees(captured, module, args, kwargs) < 1e-6
    printed = load_text(print_module(captured, base=None), name).ModelNew().eval()
    printed.load_state_dict(module.state_dict())
    with torch.no_grad():
        got, expected = printed(*args, **kwargs), module(*args, **kwargs)
    assert type(got) is type(expected)
    torch.testing.assert_close(got.to_tuple(), expected.to_tuple())


@pytest.mark.parametrize("name", MODELS)
def test_layers_of_a_transformer_are_one_problem(name: str) -> None:
    module, args, kwargs = MODELS[name]()
    pieces = partition(capture(module, args, kwargs), 40)
    digests = [piece.region.digest for piece in pieces]
    assert len(pieces) == 5 and len(set(digests)) == 3
    assert digests[1] == digests[2] == digests[3]
    assert len({piece.source for piece in pieces[1:4]}) == 1
    assert all(len(piece.nodes) <= 40 for piece in pieces)


def test_pieces_cover_the_graph_once() -> None:
    module, args, kwargs = bert()
    captured = capture(module, args, kwargs)
    for limit in (1, 5, 17, 1000):
        pieces = partition(captured, limit)
        covered = [node for piece in pieces for node in piece.nodes]
        assert len(covered) == len(set(covered))
        calls = {node for node in captured.graph.graph.nodes if node.op == "call_function"}
        assert set(covered) == calls
        known = set(captured.graph.graph.find_nodes(op="placeholder"))
        for piece in pieces:
            assert set(piece.arguments) <= known
            known |= set(piece.results)
        assert set(output_of(captured.graph.graph).all_input_nodes) <= known


def test_both_roads_are_cut_alike() -> None:
    module, x, mask = Stack().eval(), torch.randn(3, 8), torch.randn(3, 16)
    captured: list[Capture] = []

    def backend(graph: fx.GraphModule, example_inputs: list[Any]) -> Any:
        captured.append(capture_dynamo(graph, example_inputs))
        return graph.forward

    torch._dynamo.reset()
    torch.compile(module, backend=backend)(x, mask)
    ours, theirs = partition(capture(module, (x, mask)), 6), partition(captured[0], 6)
    assert [piece.region.digest for piece in ours] == [piece.region.digest for piece in theirs]
    assert names_served(ours) == names_served(theirs)


def test_a_mask_of_long_life_is_no_obstacle() -> None:
    pieces = partition(capture(Stack().eval(), (torch.randn(3, 8), torch.randn(3, 16))), 6)
    digests = [piece.region.digest for piece in pieces]
    assert max(map(digests.count, digests)) == 4
    layer = pieces[digests.index(max(digests, key=digests.count))]
    assert len(layer.arguments) == 2 and len(layer.results) == 1


def test_a_piece_is_a_problem_of_its_own() -> None:
    module, args, kwargs = bert()
    pieces = partition(capture(module, args, kwargs), 40)
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    for index, piece in enumerate(pieces):
        problem = piece.problem(f"piece {index}")
        assert identify(capture_problem(problem)).digest == piece.region.digest == problem.region.digest  # type: ignore[union-attr]
        build_reference(problem, {name: value.detach() for name, value in piece.state(state).items()})


def test_open_sizes_cross_into_pieces() -> None:
    from kernelwright.graph.reference import flatten_call
    from kernelwright.records import Problem, Signature, TensorSpec

    rows = Range(2, 16, 4)
    args = (torch.randn(4, 8), torch.randn(4, 16))
    specs = (TensorSpec("x", "float32", (rows, 8)), TensorSpec("mask", "float32", (rows, 16)))
    whole = Problem("stack", "", Signature(specs, flatten_call(args, {})[1]))
    pieces = partition(capture(Stack().eval(), args, dynamic={0: {0: rows}, 1: {0: rows}}), 6)
    for piece in pieces:
        problem = piece.problem("piece", whole)
        assert all(spec.shape[0] == rows for spec in problem.signature.tensors)
        own = identify(capture_problem(problem))
        assert own.text == piece.region.text
        assert own.dynamic_text is not None and piece.region.dynamic_text is not None


class TestStitch:
    LAYER = """
from reference import Model

class ModelNew(Model):
    def prepare(self):
        self.prepared = self.p0 * 1

    def forward(self, *args):
        assert source("reference.py")
        return super().forward(*args)

def source(name):
    return name
"""

    def stitched(self, monkeypatch: pytest.MonkeyPatch, module: nn.Module, captured: Capture) -> nn.Module:
        pieces = partition(captured, 40)
        digests = [piece.region.digest for piece in pieces]
        layer = pieces[digests.index(max(digests, key=digests.count))]
        sources = (SourceFile("model.py", self.LAYER), SourceFile("reference.py", layer.source))
        candidate = Candidate("hand", "torch@cpu", sources)
        files = stitch(captured, pieces, {layer.region.digest: candidate}, "class Model: ...")
        assert [file.path for file in files] == ["model.py", "reference.py", "piece0_model.py", "piece0_reference.py"]
        assert 'source("piece0_reference.py")' in files[2].text
        reference = ModuleType("reference")
        reference.Model = _Same(module)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "reference", reference)
        for file in reversed(files[2:]):
            stem = file.path.removesuffix(".py")
            monkeypatch.setitem(sys.modules, stem, load_text(file.text, stem))
        whole = load_text(files[0].text, "whole").ModelNew().eval()
        assert files[0].text.count("= self.pieces[") == 2 * 3  # each bound and called
        return whole

    @pytest.mark.parametrize("name", MODELS)
    def test_the_whole_is_the_module(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        module, args, kwargs = MODELS[name]()
        whole = self.stitched(monkeypatch, module, capture(module, args, kwargs))
        assert set(whole.state_dict()) == set(module.state_dict())
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.1)
            whole.load_state_dict(module.state_dict())
            whole.prepare()  # type: ignore[operator]
            assert whole.pieces[1].prepared is not None  # type: ignore[index]
            got, expected = whole(*args, **kwargs), module(*args, **kwargs)
            torch.testing.assert_close(got.to_tuple(), expected.to_tuple())

    def test_weights_are_shared_and_not_copied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module, args, kwargs = vit()
        whole = self.stitched(monkeypatch, module, capture(module, args, kwargs))
        own = {parameter.data_ptr() for parameter in whole.parameters()}
        served = {parameter.data_ptr() for piece in whole.pieces for parameter in piece.parameters()}  # type: ignore[union-attr]
        assert served < own
