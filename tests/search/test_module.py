"""optimize() on live modules, with the real judge on this machine's CPU."""

import logging
from pathlib import Path

import pytest
import torch
from torch import nn

import kernelwright
from kernelwright.archive import Archive
from kernelwright.errors import UsageError
from kernelwright.records import Brief, Candidate, Problem, SourceFile, Status
from kernelwright.search.conduct import search
from kernelwright.writers import Bench
from kernelwright.writers.eager import EagerWriter
from kernelwright.writers.replay import ReplayWriter


class Wasteful(nn.Module):
    """Clips forty times what was clipped the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        x = x * self.scale
        for _ in range(40):
            x = torch.relu(x)
        return x


class OnceWriter:
    """Clips once."""

    name = "once"
    baseline = False

    def missing(self, target: str) -> str | None:
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        self.verdict = await bench.submit(once(brief.problem))


def once(problem: Problem, wrong: bool = False, target: str = "torch@cpu") -> Candidate:
    text = (
        "import torch\nfrom reference import Model\n\n\nclass ModelNew(Model):\n"
        f"    def forward(self, x):\n        return torch.relu(x * self.scale){' * 1.01' if wrong else ''}\n"
    )
    return Candidate("once", target, (SourceFile("model.py", text), SourceFile("reference.py", problem.source)))


@pytest.mark.timing
def test_a_faster_module_takes_the_place_of_the_original(tmp_path: Path) -> None:
    model, x = Wasteful(), torch.randn(64, 512)
    with torch.no_grad():
        model.scale.fill_(1.3)
    fast = kernelwright.optimize(
        model, x, target="cpu", budget="4m", writers=[OnceWriter()], archive=tmp_path / "a.sqlite"
    )
    assert fast is not model and isinstance(fast, nn.Module)
    assert list(fast.state_dict()) == ["scale"]
    with torch.no_grad():
        torch.testing.assert_close(fast(x), model(x))
        model.scale.fill_(0.1)
        torch.testing.assert_close(fast(x), model(x))
    with Archive(tmp_path / "a.sqlite") as archive:
        run = archive.runs()[0]
        outcome = archive.outcome(run.id)
    assert outcome.best and outcome.best.verdict.confirmed
    assert outcome.best.verdict.speedup("eager").low > 2  # type: ignore[union-attr]


def test_where_nothing_wins_the_original_comes_back_with_the_reason(caplog, tmp_path: Path) -> None:
    class WrongWriter(OnceWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            self.verdict = await bench.submit(once(brief.problem, wrong=True))

    model, writer = Wasteful(), WrongWriter()
    with caplog.at_level(logging.WARNING, "kernelwright"):
        kept = kernelwright.optimize(model, torch.randn(64, 512), "cpu", "4m", [writer], archive=Archive(None))
    assert kept is model
    assert writer.verdict.status is Status.WRONG_VALUES
    assert "none of 1 candidates passed" in caplog.text


def test_arguments_that_make_no_sense_are_told() -> None:
    with pytest.raises(UsageError, match="leave out example_inputs"):
        kernelwright.optimize("a.py:B", torch.zeros(1), target="cpu")
    with pytest.raises(UsageError, match="takes an nn.Module"):
        kernelwright.optimize(lambda x: x, torch.zeros(1), target="cpu")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Wasteful does not take a call without arguments: pass example_inputs"):
        kernelwright.optimize(Wasteful(), target="cpu")
    with pytest.raises(UsageError, match="Wasteful does not take example_inputs: "):
        kernelwright.optimize(Wasteful(), (torch.zeros(3), torch.zeros(3)), target="cpu")
    with pytest.raises(UsageError, match="no writer is called 'templat'"):
        kernelwright.optimize(Wasteful(), torch.zeros(4, 512), target="cpu", writers="eager, templat")
    with pytest.raises(UsageError, match="is not a time"):
        kernelwright.optimize(Wasteful(), torch.zeros(1), target="cpu", budget="soon")


def test_the_whole_house_on_the_null_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EagerWriter, "missing", lambda self, target: None)
    from kernelwright.problems import load

    file = Path(__file__).parents[2] / "examples" / "gelu_mlp.py"
    problem = load(f"{file}:MLP", inputs=["f32[8,256]"])
    replayed = ReplayWriter([once(problem, target="null@null")])
    outcome = search(problem, "null", writers=["eager", replayed], budget_s=30)
    assert [(entry.candidate.writer, entry.verdict.status) for entry in outcome.entries] == [
        ("eager", Status.PASSED),
        ("once", Status.RUNTIME_ERROR),  # it knows another module's weights
    ]
    assert outcome.best is None and "carry no time" in outcome.reason
