"""The null member among the writers."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelwright.errors import UsageError
from kernelwright.records import Brief, Candidate, Case, Facts, Problem, Signature, SourceFile, Trial, Verdict
from kernelwright.writers.replay import ReplayWriter, candidate_of

MODEL = "class ModelNew: ...\n"


class Desk:
    """A bench that only remembers."""

    def __init__(self) -> None:
        self.submitted: list[Candidate] = []

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        raise AssertionError("a replay tries nothing")

    async def submit(self, candidate: Candidate) -> Verdict:
        self.submitted.append(candidate)
        return None  # type: ignore[return-value]


def brief(attempts: int = 8) -> Brief:
    return Brief(Problem("Net", "", Signature((), "{}")), "null", Facts("null", "", ""), attempts=attempts)


def made(count: int, target: str = "null@null") -> list[Candidate]:
    return [Candidate("someone", target, (SourceFile("model.py", f"# {index}"),)) for index in range(count)]


def test_it_submits_what_it_was_given() -> None:
    desk, given = Desk(), made(3)
    asyncio.run(ReplayWriter(given).write(brief(), desk))
    assert desk.submitted == given


def test_attempts_and_device() -> None:
    desk = Desk()
    asyncio.run(ReplayWriter(made(2, "cpp@cpu") + made(5)).write(brief(attempts=3), desk))
    assert [candidate.target for candidate in desk.submitted] == ["null@null"] * 3


def test_missing() -> None:
    assert "no candidates for cpu" in (ReplayWriter().missing("cpu") or "")
    assert ReplayWriter(made(1)).missing("null") is None and ReplayWriter(made(1)).missing("cpu")


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MODEL)
    (tmp_path / "notes.txt").write_text("no candidate")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "model.py").write_text(MODEL)
    (tmp_path / "b" / "softmax.cpp").write_text("kernel void f() {}\n")
    (tmp_path / "b" / "README.md").write_text("not a source")
    desk = Desk()
    asyncio.run(ReplayWriter.of_folder(tmp_path, "null").write(brief(), desk))
    assert [(item.label, item.target) for item in desk.submitted] == [("a", "torch@null"), ("b", "cpp@null")]
    assert [file.path for file in desk.submitted[1].sources] == ["model.py", "softmax.cpp"]


def test_kernels_inside_the_python_text(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(MODEL + 'lib = kernelwright.compile(TEXT, language="cpp")\n')
    assert candidate_of(path).target == "cpp@cpu"


def test_what_is_no_candidate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no candidate"):
        ReplayWriter.of_folder(tmp_path)
    with pytest.raises(UsageError, match="holds no candidate"):
        ReplayWriter.of_folder(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="cannot be read"):
        candidate_of(tmp_path / "nowhere.py")
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="no class ModelNew"):
        candidate_of(tmp_path / "a.py")
