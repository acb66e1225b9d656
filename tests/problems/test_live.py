"""Live modules: the text printed for them is a problem of its own."""

import pytest
import torch
from torch import nn

from kernelwright.errors import CaptureError, ProblemError
from kernelwright.graph import build_reference
from kernelwright.problems import arguments, from_module
from kernelwright.records import Case, unflatten


class Net(nn.Module):
    """Everything that can cross: nested results, a tie, buffers, a literal."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.table.weight
        self.drop = nn.Dropout(0.5)

    def forward(self, tokens: torch.Tensor, scale: float = 1.0, mask: torch.Tensor | None = None) -> dict:
        x = self.drop(self.norm(self.table(tokens).sum(1)) * scale)
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        return {"logits": self.head(x), "all": (x, [x + 1])}


def run(module: nn.Module, problem, leaves: list[torch.Tensor]):
    call = unflatten(problem.signature.arguments, leaves)
    with torch.no_grad():
        return module(*call["args"], **call["kwargs"])


def test_a_whole_module() -> None:
    model = Net().train()
    tokens, mask = torch.randint(0, 20, (4, 3)), torch.rand(4, 8) < 0.3
    problem, weights = from_module(model, [tokens], {"scale": 2.0, "mask": mask})
    assert model.training and model.drop.training, "the model's mode was not put back"
    assert list(weights) == list(model.state_dict())
    assert problem.name == "Net" and "Everything that can cross" in problem.readable and problem.region is not None
    spec = problem.signature.tensors[0]
    assert (spec.name, spec.low, spec.high) == ("tokens", 0, 49), "all rows of the table are legal"
    twin = build_reference(problem, weights)
    for case in (Case(seed=3), Case("signed", 4)):
        leaves = arguments(problem, case)
        got, wanted = run(twin, problem, leaves), run(model.eval(), problem, leaves)
        torch.testing.assert_close(got["logits"], wanted["logits"])
        torch.testing.assert_close(got["all"][1][0], wanted["all"][1][0])


@pytest.mark.parametrize(
    ("leaf", "check"),
    [
        (torch.ones(3, 4), lambda x: (x == 1).all()),
        (torch.full((3, 4), 7), lambda x: (x == 7).all()),
        (torch.arange(4).expand(3, 4), lambda x: torch.equal(x, torch.arange(4).expand(3, 4))),
        (torch.ones(4, 4).bool().tril(), lambda x: torch.equal(x, torch.ones(4, 4).bool().tril())),
        (torch.ones(4, 4).bool().triu(1), lambda x: torch.equal(x, torch.ones(4, 4).bool().triu(1))),
        (
            torch.full((1, 4, 4), -torch.inf).triu(1),
            lambda x: torch.equal(x[0], torch.full((4, 4), -torch.inf).triu(1)),
        ),
        (torch.tensor([0.0, -torch.inf, 0.0]), lambda x: x.tolist() == [0, -torch.inf, 0]),
        (torch.randn(500) * 3 + 5, lambda x: abs(float(x.mean()) - 5) < 1 and abs(float(x.std()) - 3) < 1),
        (torch.rand(500), lambda x: float(x.min()) >= 0 and float(x.max()) <= 1),
        (torch.rand(500) < 0.2, lambda x: 0.1 < float(x.float().mean()) < 0.3),
        (torch.randint(5, 9, (500,)), lambda x: int(x.min()) >= 0 and int(x.max()) == 8),
        (torch.tensor(3.0), lambda x: x.shape == ()),
    ],
    ids=[
        "ones",
        "full",
        "count",
        "tril",
        "triu",
        "causal",
        "literal",
        "normal",
        "uniform",
        "mask",
        "integers",
        "scalar",
    ],
)
def test_inputs_keep_their_kind(leaf: torch.Tensor, check) -> None:
    class Double(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

    problem, _ = from_module(Double(), [leaf])
    (drawn,) = arguments(problem, Case(seed=1))
    assert (drawn.shape, drawn.dtype) == (leaf.shape, leaf.dtype) and bool(check(drawn))


def test_strides_of_the_users_tensors_are_the_contract() -> None:
    problem, _ = from_module(nn.ReLU(), [torch.randn(6, 4).t()])
    assert problem.signature.tensors[0].stride == (1, 4)
    assert arguments(problem, Case())[0].stride() == (1, 4)


def test_the_example_tensors_are_left_alone() -> None:
    x = torch.randn(4, 6, requires_grad=True)
    kept = x.detach().clone()
    from_module(nn.Linear(6, 6), [x])
    assert torch.equal(x.detach(), kept) and x.grad is None


def test_what_cannot_be_captured_says_why() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match="values of tensors"):
        from_module(Branches(), [torch.randn(3)])


def test_dropout_while_training_is_refused() -> None:
    with pytest.raises(ProblemError, match="draws random numbers"):
        from_module(nn.Dropout(0.5), [torch.randn(100)], training=True)


def test_running_statistics_are_put_back() -> None:
    model = nn.BatchNorm1d(6).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    problem, _ = from_module(model, [torch.randn(16, 6) + 3], training=True)
    assert problem.numerics.training and not model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", ["bert", "vit"])
def test_transformers(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    torch.manual_seed(0)
    if kind == "bert":
        model = transformers.BertModel(transformers.BertConfig(vocab_size=100, **sizes))
        problem, weights = from_module(model, [], {"input_ids": torch.randint(0, 60, (2, 8))})
        assert problem.signature.tensors[0].high == 99
    else:
        model = transformers.ViTModel(transformers.ViTConfig(image_size=32, patch_size=8, **sizes))
        problem, weights = from_module(model, [torch.randn(2, 3, 32, 32)])
    assert problem.region is not None and set(weights) == set(model.state_dict())
