"""Capture holds what a module takes and gives, and says why where it cannot."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from road_modules import CALLS, Of, X
from torch import Tensor, nn

from kernelwright.errors import CaptureError, ProblemError
from kernelwright.graph import agrees, build_reference, capture, capture_problem, load_text
from kernelwright.graph.reference import flatten_call
from kernelwright.records import Numerics, Problem, Range, Signature, TensorSpec, unflatten


@pytest.mark.parametrize("name", CALLS)
def test_the_graph_computes_what_the_module_does(name: str) -> None:
    module, args, kwargs = CALLS[name]
    captured = capture(module, args, kwargs)
    assert agrees(captured, module, args, kwargs) < 1e-6
    assert not list(captured.graph.graph.find_nodes(op="get_attr"))
    assert len(captured.inputs) == len(captured.graph.graph.find_nodes(op="placeholder")) == len(captured.positions)
    assert len(unflatten(captured.arguments, flatten_call(args, kwargs)[0])) == 2


def test_one_tensor_in_two_places_is_one_input() -> None:
    module, args, kwargs = CALLS["one tensor twice"]
    assert len(capture(module, args, kwargs).inputs) == 1
    assert len(capture(module, (X, X.clone()), kwargs).inputs) == 2


def test_batch_norm_in_training_mutates_buffers() -> None:
    module = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).train()
    captured = capture(module, (X,))
    assert set(captured.mutations) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    before = {name: value.clone() for name, value in module.named_buffers()}
    assert agrees(captured, module, (X,)) < 1e-6
    assert all(torch.equal(value, before[name]) for name, value in module.named_buffers())


def test_rebinding_a_buffer_is_a_mutation_too() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.count = self.count + 1
            return x * self.count

    assert capture(Counter(), (X,)).mutations == ("count",)


def test_autocast_is_in_the_graph() -> None:
    module = nn.Linear(6, 6)
    captured = capture(module, (X,), autocast="bfloat16")
    (output,) = captured.graph.graph.find_nodes(op="output")[0].args[0]
    assert output.meta["val"].dtype == torch.bfloat16


def test_parameters_require_no_gradient_in_the_graph_and_stay_as_they_were() -> None:
    module = nn.Linear(6, 6)
    captured = capture(module, (X.clone().requires_grad_(),))
    assert not any(node.meta["val"].requires_grad for node in captured.graph.graph.nodes if node.op == "placeholder")
    assert module.weight.requires_grad and module.weight.grad is None


def branches(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def in_place(x: Tensor) -> Tensor:
    return x.add_(1)


def strange(x: Tensor) -> Any:
    return {"a": x, "b": object()}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (branches, ["depend on the values", "test_capturing.py", "x.sum() > 0"]),
        (in_place, ["changes its argument 0 in place"]),
        (strange, ["result cannot be captured", "object"]),
        (lambda x: x @ x, ["cannot be captured", "test_capturing.py"]),
        (lambda x: x[x > 0], ["depend on the values", "aten.index"]),
    ],
)
def test_what_cannot_be_captured_is_explained(function: Callable[..., Any], words: list[str]) -> None:
    with pytest.raises(CaptureError) as error:
        capture(Of(function), (X,))
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)


def test_arguments_that_cannot_cross() -> None:
    with pytest.raises(CaptureError, match="object"):
        capture(Of(lambda x, y: x), (X, object()))


ROWS = {0: {0: Range(2, 8, 4)}}


class TestDynamic:
    def test_sizes_stay_open(self) -> None:
        module = Of(lambda x: torch.cat([x, x]).reshape(-1))
        captured = capture(module, (X,), dynamic=ROWS)
        for rows in (2, 7):
            assert agrees(captured, module, (torch.randn(rows, 6),)) == 0

    def test_a_fixed_size_is_refused(self) -> None:
        with pytest.raises(CaptureError, match="the code fixes it to 4"):
            capture(Of(lambda x: x + torch.ones(4, 6)), (X,), dynamic=ROWS)

    def test_a_branch_on_a_size_is_refused(self) -> None:
        with pytest.raises(CaptureError, match="another way for open sizes such as 6"):
            capture(Of(lambda x: x if x.shape[0] < 6 else -x), (X,), dynamic=ROWS)

    def test_a_branch_outside_the_contract_is_not(self) -> None:
        capture(Of(lambda x: x + 1 if x.shape[0] < 9 else -x), (X,), dynamic=ROWS)

    def test_guards_of_torch_itself_are_harmless(self) -> None:
        """The CPU's convolution asks whether the batch is below 16."""
        capture(nn.Conv2d(3, 4, 3), (torch.randn(4, 3, 8, 8),), dynamic={0: {0: Range(2, 64, 4)}})

    def test_an_example_of_one_is_open_too(self) -> None:
        module = Of(lambda x: x * 2)
        captured = capture(module, (X[:1],), dynamic={0: {0: Range(1, 8, 1)}})
        assert agrees(captured, module, (X,)) == 0

    def test_two_ranges_tied_by_the_code_are_one(self) -> None:
        module = Of(lambda x, y: x + y)
        captured = capture(module, (X, X.clone()), dynamic={0: {0: Range(2, 8, 4)}, 1: {0: Range(2, 8, 4)}})
        assert agrees(captured, module, (torch.randn(3, 6), torch.randn(3, 6))) == 0


SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, 3)
        self.dropout = nn.Dropout()

    def forward(self, x):
        return self.dropout(self.linear(x))

def get_init_inputs():
    return [6]

def get_inputs():
    return [torch.randn(4, 6)]
"""


def problem(source: str = SOURCE, **fields: Any) -> Problem:
    template = flatten_call([X], {})[1]
    shape = fields.pop("shape", (4, 6))
    return Problem("net", source, Signature((TensorSpec("x", "float32", shape),), template), **fields)


class TestProblem:
    def test_built_under_seed_0_and_in_its_mode(self) -> None:
        torch.manual_seed(7)
        expected = torch.rand(1)
        torch.manual_seed(7)
        first, second = build_reference(problem()), build_reference(problem(numerics=Numerics(training=True)))
        assert torch.equal(torch.rand(1), expected)
        assert not first.training and second.training
        assert torch.equal(first.linear.weight, second.linear.weight)  # type: ignore[union-attr, arg-type]
        assert first.linear.weight.requires_grad  # type: ignore[union-attr]

    def test_weights_are_loaded(self) -> None:
        weights = {"linear.weight": torch.ones(3, 6), "linear.bias": torch.zeros(3)}
        torch.testing.assert_close(build_reference(problem(), weights)(X), X.sum(1, keepdim=True).expand(4, 3))

    def test_captured_once(self) -> None:
        assert capture_problem(problem()) is capture_problem(problem())

    def test_ranges_of_the_signature_are_open(self) -> None:
        captured = capture_problem(problem(shape=(Range(2, 8, 4), 6)))
        assert agrees(captured, build_reference(problem()), (torch.randn(7, 6),)) == 0

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("import torch\nclass Model\n", "line 2"),
            ("import torch\n1 / 0\n", "line 2: ZeroDivisionError"),
            (SOURCE.replace("class Model", "class Net"), "defines no Model"),
            (SOURCE.replace("def get_init_inputs", "def other"), "defines no get_init_inputs"),
            (SOURCE.replace("nn.Linear(width, 3)", "nn.Lenear(width, 3)"), "line 8: AttributeError"),
        ],
    )
    def test_faults_of_the_text_name_the_line(self, source: str, message: str) -> None:
        with pytest.raises(ProblemError, match=message):
            build_reference(problem(source))

    def test_tracebacks_show_the_text(self) -> None:
        import inspect

        module = load_text(SOURCE, "shown")
        assert "self.dropout(self.linear(x))" in inspect.getsource(module.Model)
