"""The survey calls a problem degenerate exactly where an answer that looks at nothing passes."""

from collections.abc import Iterator

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import JUDGE_VERSION, Gate, Judge
from kernelwright.judge.cases import Pool
from kernelwright.judge.degenerate import Tally, remembered
from kernelwright.judge.reference import Reference
from kernelwright.records import Case


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FILE = """
import torch
from torch import nn

class Sub(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)
    def forward(self, x):
        BODY

def get_inputs():
    return [torch.rand(8, 16)]

def get_init_inputs():
    return []
"""
BODIES = {
    "y = self.inner(x); return y - y": ("zeros", "a constant", "another input's result", "other weights' result"),
    "return torch.clamp(torch.clamp(self.inner(x), max=0.0), min=0.0)": (
        "zeros", "a constant", "another input's result", "other weights' result"
    ),
    "return torch.relu(x)": ("other weights' result",),
    "return self.inner(x)": (),
    "return torch.softmax(self.inner(x), -1) * 1e-6": (),
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_survey(body, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FILE.replace("BODY", body))
    problem = problems.load(f"{path}:Sub")
    reference = Reference(problem, None, 1 << 26)
    tally = Tally()
    for case in Pool(problem, (1, 2, 3), True).survey():
        answer = reference.ask(case)[1]
        if answer is not None:
            tally.add(case, answer)
    found = tally.survey()
    assert found.everywhere == BODIES[body], found
    assert found.degenerate == bool(BODIES[body])
    assert found.sentence


def test_a_survey_says_what_tells_an_impostor(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FILE.replace("BODY", "return torch.relu(self.inner(x) - 2.0)"))
    problem = problems.load(f"{path}:Sub")
    with Judge(problem, "cpu", gate=Gate.private()) as judge:
        found = judge.survey()
    zeros = next(item for item in found.impostors if item.name == "zeros")
    assert "nominal" in zeros.passes and "scaled_large" in zeros.fails
    assert found.nominal and not found.degenerate and "harder inputs" in found.sentence
    with Judge(problem, "cpu", gate=Gate.private()) as judge:
        assert remembered(f"{problem.digest}-judge{JUDGE_VERSION}") == found == judge.survey()


def test_a_survey_stops_where_all_are_unmasked_or_the_time_is_up(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FILE.replace("BODY", "return self.inner(x)"))
    problem = problems.load(f"{path}:Sub")
    with Judge(problem, "cpu", gate=Gate.private()) as judge:
        heard = []
        short = judge.survey(watch=lambda place, count, case: heard.append((place, count, case.family)))
        assert short.left_out == len(Pool(problem, (1, 2, 3), True).survey()) - len(heard) > 5
        assert {family for _, _, family in heard} == {"nominal"}
        whole = judge.survey(whole=True)
        assert not whole.left_out and whole.sentence == short.sentence
        assert {"signed", "sorted"} <= {family for item in whole.impostors for family in item.fails}
        assert judge.survey() == whole
    path.write_text(FILE.replace("BODY", "y = self.inner(x); return y - y"))
    with Judge(problems.load(f"{path}:Sub"), "cpu", gate=Gate.private()) as judge:
        hurried = judge.survey(whole=True, budget_s=0.0)
        assert hurried.degenerate and f"{hurried.left_out} cases left" in hurried.sentence
        assert not judge.survey(whole=True).left_out


def test_a_survey_leaves_the_references_own_answer_as_it_is(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FILE.replace("BODY", "return (x.double() - 0.5).sqrt()"))
    problem = problems.load(f"{path}:Sub")
    reference = Reference(problem, None, 1 << 26)
    case = Case("nominal", 1)
    answer = reference.ask(case)[1]
    assert answer is not None
    (before,) = [item.own.clone() for item in answer.wanted]
    assert before.dtype == torch.float64 and before.isnan().any()
    Tally().add(case, answer)
    torch.testing.assert_close(answer.wanted[0].own, before, rtol=0, atol=0, equal_nan=True)
