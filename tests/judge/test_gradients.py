"""Forward and backward as one problem: what it returns, where gradients jump, what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.errors import ProblemError
from kernelwright.judge import Gate, Judge, Settings, differentiated, differentiating
from kernelwright.judge.examination import examine
from kernelwright.judge.reference import Reference
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, Case, Problem, SourceFile, Stage, Status


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


HEAD = "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n"


def load(folder: Path, text: str, **options: object) -> Problem:
    path = folder / "net.py"
    path.write_text(HEAD + text)
    return problems.load(f"{path}:Net", **options)  # type: ignore[arg-type]


TWO = """
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 4)
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x, *, index):
        y = self.inner(x) * self.frozen
        return {"picked": y[index], "where": y.argmax(-1), "whole": y}


def get_inputs():
    return {"x": torch.randn(6, 8), "index": torch.randint(0, 6, (5,))}
"""


def test_results_and_gradients_are_returned_by_name(tmp_path: Path) -> None:
    problem = differentiated(load(tmp_path, TWO))
    assert problem.gradients == ("input 0", "unused", "inner.weight", "inner.bias")
    assert differentiated(problem) is problem
    reference = Reference(problem, None, 1 << 20)
    leaves, answer = reference.ask(Case("nominal", 3))
    assert answer is not None and answer.informative and not reference.note
    assert [tuple(leaf.shape) for leaf in leaves] == [(6, 8), (5,), (5, 4), (6, 4)]
    *results, x, unused, weight, bias = (item.value for item in answer.wanted)
    assert len(results) == 3
    arriving = leaves[3].double().index_add(0, leaves[1], leaves[2].double())
    state = {name: value.double() for name, value in reference.weights().items()}
    torch.testing.assert_close(x, arriving @ state["inner.weight"])
    torch.testing.assert_close(weight, arriving.t() @ leaves[0].double())
    torch.testing.assert_close(bias, arriving.sum(0))
    assert not unused.any()


KINK = """
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return torch.relu(self.inner(x))


def get_inputs():
    return [torch.randn(16, 64)]
"""


def test_a_gradient_may_jump_where_a_rounding_decides_and_only_there(tmp_path: Path) -> None:
    problem = differentiated(load(tmp_path, KINK))
    reference = Reference(problem, None, 0)
    leaves = problems.arguments(problem, Case("nominal", 5))
    weight = reference.weights()["inner.weight"]
    # The input of one ReLU is brought to zero but for a rounding.
    row = leaves[0][3].double()
    row -= weight[7].double() * (row @ weight[7].double()) / weight[7].double().square().sum()
    leaves[0][3] = row.float()
    answer = reference.answer(leaves, Case())
    hidden = leaves[0].double() @ weight.double().t()
    assert float(hidden[3, 7].abs()) < 1e-6

    def gradient(open_: torch.Tensor) -> torch.Tensor:
        return ((leaves[1].double() * open_) @ weight.double()).float()

    right = hidden > 0
    other = right.clone()
    other[3, 7] = ~other[3, 7]
    wanted = answer.wanted[1]
    assert not examine(gradient(right), wanted).wrong
    assert not examine(gradient(other), wanted).wrong  # either decision is right
    other[5, 7] = ~other[5, 7]
    assert examine(gradient(other), wanted).wrong > 30  # this one was clear
    tight = Reference(differentiated(load(tmp_path, KINK)), None, 0).answer(
        problems.arguments(problem, Case("nominal", 5)), Case()
    )
    scale = float(tight.wanted[1].value.square().mean().sqrt())
    assert float(tight.wanted[1].allowed.median()) < 1e-5 * scale


REFUSED = {
    "    def forward(self, x):\n        return x.argmax(-1)\n": "no result of",
    "    def forward(self, x):\n        return x.detach() * 2\n": "no result of",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_differentiated_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    problem = load(tmp_path, text + "\n\ndef get_inputs():\n    return [torch.randn(4, 5)]\n")
    with pytest.raises(ProblemError, match=REFUSED[text]):
        differentiated(problem)


def test_forward_and_backward_are_timed_and_confirmed(tmp_path: Path) -> None:
    problem = differentiated(load(tmp_path, KINK))
    settings = Settings(rounds=2, confirm_rounds=5, survey=False, session=SessionSettings(threads=1))
    text = HEAD.replace("Net", "ModelNew") + KINK.partition("\n\ndef get")[0]
    mine = differentiating(Candidate("test", "torch@cpu", (SourceFile("model.py", text),)), problem)
    with Judge(problem, "cpu", settings=settings, gate=Gate(None)) as judge:
        verdict = judge.confirm(mine)
    assert verdict.status is Status.PASSED and verdict.stage is Stage.CONFIRM, verdict.reason + verdict.log
    assert verdict.timing is not None and "forward and backward" in verdict.labels
    assert any("backward" in name.lower() for name, _ in verdict.ledger), verdict.ledger
