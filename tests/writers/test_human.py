"""A person's folder: the brief in it, verdicts beside what is dropped."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from kernelwright.errors import UsageError
from kernelwright.records import (
    Brief,
    Candidate,
    Environment,
    Facts,
    Finding,
    Problem,
    Section,
    Signature,
    Stage,
    Status,
    Verdict,
)
from kernelwright.writers import human
from kernelwright.writers.human import HumanWriter, candidates, read

FACTS = Facts("null", "", "")
BRIEF = Brief(
    Problem("Net", "class Model: ...\n", Signature((), "{}")), "null", FACTS, (Section("problem", "Problem", "Do it."),)
)
HERE = Environment(FACTS, "", "", "", 1)


class Desk:
    """Rejects everything, and remembers it."""

    def __init__(self) -> None:
        self.submitted: list[Candidate] = []

    async def submit(self, candidate: Candidate) -> Verdict:
        self.submitted.append(candidate)
        found = Finding("values", False, "row 3 is off")
        return Verdict(candidate.digest, "p", "t", Status.WRONG_VALUES, Stage.VERIFY, HERE, (found,), log="a log")

    def tell(self, said: object) -> None: ...


def old(path: Path, text: str, age_s: float = 10.0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_what_is_dropped_is_judged_and_what_changes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human, "LOOK_S", 0.02)
    folder, desk = tmp_path / "mine", Desk()

    async def work() -> None:
        writing = asyncio.create_task(HumanWriter(folder).write(BRIEF, desk))  # type: ignore[arg-type]
        for step in range(3):
            await asyncio.sleep(0.15)
            if step == 0:
                old(folder / "a.py", "class ModelNew: 'one'\n")
                old(folder / "b" / "model.py", "class ModelNew: 'two'\n")
                old(folder / "b" / "k.cpp", "kernel void k() {}\n")
                old(folder / "c.py", "x = 1\n")
                (folder / "half.py").write_text("class ModelNew: 'still being written'")
            if step == 1:
                old(folder / "a.py", "class ModelNew: 'again'\n", age_s=5.0)
        writing.cancel()

    asyncio.run(work())
    assert (
        "Do it." in (folder / "BRIEF.md").read_text() and (folder / "reference.py").read_text() == "class Model: ...\n"
    )
    assert [item.label for item in desk.submitted] == ["a", "b", "a"]
    assert [file.path for file in desk.submitted[1].sources] == ["model.py", "k.cpp"]
    assert "'again'" in desk.submitted[2].sources[0].text
    told = (folder / "a.py.verdict.txt").read_text()
    assert told.startswith("WRONG_VALUES at verify\nFAILED values: row 3 is off") and "a log" in told
    assert "defines no class ModelNew" in (folder / "c.py.verdict.txt").read_text()


def test_what_is_no_candidate(tmp_path: Path) -> None:
    assert (
        "--writers human:FOLDER" in (HumanWriter().missing("cpu") or "")
        and HumanWriter(tmp_path).missing("cpu") is None
    )
    (tmp_path / "reference.py").write_text("")
    (tmp_path / "empty").mkdir()
    assert candidates(tmp_path) == []
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "nowhere.py", BRIEF)
