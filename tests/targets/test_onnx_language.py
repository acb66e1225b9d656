"""ONNX as a language: what it needs, what it refuses, and graphs as runtimes run them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.errors import CompileError, MissingError
from kernelwright.records import BuildRequest, Range, Signature, TensorSpec, encode, flatten
from kernelwright.targets import LocalBroker, ahead
from kernelwright.targets.graph_runtimes import RUNTIMES
from kernelwright.targets.languages import onnx as language
from kernelwright.targets.languages.onnx import OnnxGraph, OnnxLanguage
from kernelwright.writers.onnxruntime import OnnxRuntimeWriter
from kernelwright.writers.openvino import OpenVinoWriter

MISSING = {"onnxruntime": OnnxRuntimeWriter().missing("cpu"), "openvino": OpenVinoWriter().missing("cpu")}
needs_exporter = pytest.mark.skipif(OnnxLanguage().missing() is not None, reason=str(OnnxLanguage().missing()))
each_runtime = pytest.mark.parametrize(
    "runtime",
    [pytest.param(name, marks=pytest.mark.skipif(bool(why), reason=str(why))) for name, why in MISSING.items()],
)

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        torch.nn.init.zeros_(self.linear.bias)  # a value that a graph could do without, until it changes
        self.norm = torch.nn.BatchNorm1d(width)
        self.shift = torch.arange(float(width))

    def forward(self, x, *, scale):
        y = torch.nn.functional.gelu(self.norm(self.linear(x))) * scale + self.shift
        return {"sum": y.sum(-1), "all": (y, None), "signs": y > 0}


def get_init_inputs():
    return [8]
"""


def request(source: str, spec: TensorSpec, **keywords: float) -> BuildRequest:
    arguments = flatten({"args": [torch.zeros(1)], "kwargs": keywords}, torch.is_tensor)[1]
    return BuildRequest("onnx", source, (("signature", json.dumps(encode(Signature((spec,), arguments)))),))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> OnnxGraph:
    asked = request(SOURCE, TensorSpec("x", "float32", (Range(1, 6, 1), 8)), scale=2.0)
    build = LocalBroker(tmp_path_factory.mktemp("compile")).build(asked)
    return OnnxLanguage().load(Path(build.path), asked)


@pytest.fixture
def model() -> torch.nn.Module:
    space: dict[str, Any] = {}
    exec(SOURCE, space)
    return space["Model"](8).eval()


def test_what_is_missing_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "find_spec", lambda name: name != "onnxscript" or None)
    assert OnnxLanguage().missing() == "onnxscript is not installed: pip install 'kernelwright[onnx]'"


def test_what_cannot_be_exported_is_nobodys_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(module: str, order: ahead.Order, failure: str, environment: Any) -> None:
        raise CompileError(f"{failure}: no function for aten.foo", "a long report")

    monkeypatch.setattr(ahead, "run", refuse)
    with pytest.raises(MissingError, match=r"could not be exported to ONNX: no function for aten\.foo$"):
        OnnxLanguage().build(request("", TensorSpec("x", "float32", (2,))), tmp_path)
    with pytest.raises(CompileError, match="without a proper signature"):
        OnnxLanguage().build(BuildRequest("onnx", ""), tmp_path)


@pytest.mark.slow
@needs_exporter
@each_runtime
def test_a_session_computes_what_the_module_does_with_its_weights_and_follows_sizes(
    graph: OnnxGraph, model: torch.nn.Module, runtime: str
) -> None:
    for rows in (1, 4, 6):
        with torch.no_grad():
            for value in (*model.parameters(), model.norm.running_mean):  # type: ignore[union-attr]
                value.uniform_(-1, 1)  # type: ignore[operator]
        call = graph.session(model, runtime, 2)
        x = torch.randn(rows, 16)[:, ::2]
        with torch.no_grad():
            result, expected = call(x, scale=2.0), model(x, scale=2.0)
        assert sorted(result) == ["all", "signs", "sum"] and result["all"][1] is None
        torch.testing.assert_close(result["sum"], expected["sum"], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(result["all"][0], expected["all"][0], rtol=1e-4, atol=1e-4)
        assert torch.equal(result["signs"], expected["signs"])


@pytest.mark.slow
@needs_exporter
@each_runtime
def test_a_result_is_nobody_elses_memory(graph: OnnxGraph, model: torch.nn.Module, runtime: str) -> None:
    call = graph.session(model, runtime, 1)
    x = torch.randn(4, 8)
    first = call(x, scale=2.0)["all"][0]
    before = first.clone()
    call(x + 1, scale=2.0)
    del call
    assert torch.equal(first, before)


@needs_exporter
@each_runtime
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"])
def test_dtypes_come_through(runtime: str, dtype: str) -> None:
    from onnx import TensorProto, helper

    kind = getattr(TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper()))
    ends = [[helper.make_tensor_value_info(name, kind, [3, 2])] for name in ("x", "y")]
    node = helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Transpose", ["t"], ["y"])
    text = helper.make_model(
        helper.make_graph(node, "twice", *ends), opset_imports=[helper.make_opsetid("", 20)], ir_version=10
    ).SerializeToString()
    x = torch.tensor([[0, 1], [2, 3], [4, 0]]).to(getattr(torch, dtype))
    (y,) = RUNTIMES[runtime](text, 1)([x])
    assert y.dtype is x.dtype and torch.equal(y, x)


@each_runtime
def test_a_graph_that_a_runtime_does_not_take_is_unsupported(runtime: str) -> None:
    with pytest.raises(MissingError, match="does not take the graph: ."):
        RUNTIMES[runtime](b"no graph", 1)


@pytest.mark.slow
@needs_exporter
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("self.seen.add_(1); return x + self.seen", "each call changes seen"),
        ("return torch.special.bessel_j0(x)", "bessel_j0"),
    ],
)
def test_what_onnx_has_no_words_for_is_said(body: str, words: str, tmp_path: Path) -> None:
    source = "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    source += "        self.register_buffer('seen', torch.zeros(()))\n"
    source += f"    def forward(self, x):\n        {body}\ndef get_init_inputs(): return []\n"
    with pytest.raises(MissingError, match=words):
        LocalBroker(tmp_path).build(request(source, TensorSpec("x", "float32", (4, 8))))
