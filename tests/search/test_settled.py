"""Asked again, a search that was brought to its end answers at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.app.bench import finished
from kernelwright.archive import Archive
from kernelwright.problems import load
from kernelwright.records import Brief, Candidate, Outcome, Problem, SourceFile
from kernelwright.search import conduct, settled
from kernelwright.search.conduct import search
from kernelwright.writers import Bench, Writer
from kernelwright.writers.eager import EagerWriter

FILE = Path(__file__).parents[2] / "examples" / "gelu_mlp.py"


class Steady:
    """Has the same idea each time: none."""

    name = "steady"
    baseline = False
    repeats = True

    def missing(self, target: str) -> str | None:
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        pass


class Fickle(Steady):
    name = "fickle"
    repeats = False


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> Problem:
    monkeypatch.setattr(EagerWriter, "missing", lambda self, target: None)
    return load(f"{FILE}:MLP", inputs=["f32[8,256]"])


def ask(problem: Problem, archive: Archive, *writers: Writer, again: bool = False) -> Outcome:
    return search(problem, "null", writers=["eager", *writers], budget_s=30, archive=archive, again=again)


def test_what_was_searched_to_the_end_is_answered_at_once(problem: Problem) -> None:
    archive = Archive(None)
    first = ask(problem, archive, Steady())
    assert first.done == ("eager", "steady") and ask(problem, archive, Steady()) == first
    assert ask(problem, archive).run == first.run, "fewer writers were all asked then"
    again = ask(problem, archive, Steady(), again=True)
    assert again.run != first.run and ask(problem, archive, Steady()).run == again.run
    assert ask(replace(problem, name="another"), archive, Steady()).problem.digest == problem.digest


def test_who_may_have_new_ideas_is_asked_again(problem: Problem) -> None:
    archive = Archive(None)
    assert ask(problem, archive, Fickle()).run != ask(problem, archive, Fickle()).run
    known = ask(problem, archive, Steady())
    assert ask(problem, archive, Steady(), Fickle()).run != known.run


class Stock(Steady):
    """Another baseline: the reference again."""

    name = "stock"
    baseline = True

    async def write(self, brief: Brief, bench: Bench) -> None:
        text = "from reference import Model\n\n\nclass ModelNew(Model):\n    pass\n"
        sources = (SourceFile("model.py", text), SourceFile("reference.py", brief.problem.source))
        await bench.submit(Candidate(self.name, f"torch@{brief.target}", sources, baseline=True))


def test_an_answer_beside_another_baseline_is_none(problem: Problem) -> None:
    archive = Archive(None)
    beside = ask(problem, archive, Steady(), Stock())
    assert ask(problem, archive, Steady(), Stock()).run == beside.run
    alone = ask(problem, archive, Steady())
    assert alone.run != beside.run
    assert finished(archive, problem, "null", [EagerWriter(), Steady()]) == alone
    assert finished(archive, problem, "null", [EagerWriter(), Steady(), Stock()]) == beside


@pytest.mark.parametrize("what", ["version", "judge", "environment", "cut"])
def test_what_has_changed_is_searched_again(problem: Problem, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    archive = Archive(None)
    if what == "cut":

        class Slow(Steady):
            async def write(self, brief: Brief, bench: Bench) -> None:
                raise RuntimeError("it fails before it has proposed all it had")

        known = ask(problem, archive, Slow())
    else:
        known = ask(problem, archive, Steady())
    if what == "version":
        monkeypatch.setattr(settled, "__version__", "0.0.1")
        monkeypatch.setattr(conduct, "__version__", "0.0.1")
    if what == "judge":
        monkeypatch.setattr(settled, "JUDGE_VERSION", "0")
    if what == "environment":
        from kernelwright import targets

        here = targets.environment("null")
        monkeypatch.setattr(targets, "environment", lambda device: replace(here, torch="1.0"))
    assert ask(problem, archive, Steady()).run != known.run
