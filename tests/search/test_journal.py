from dataclasses import replace

from kernelwright.archive import Archive
from kernelwright.records import (
    Candidate,
    Environment,
    Facts,
    Problem,
    Signature,
    SourceFile,
    Stage,
    Status,
    Verdict,
)
from kernelwright.search.budget import Deadline
from kernelwright.search.journal import Journal

HERE = Environment(Facts("null", "null", "null"), system="", python="", torch="", threads=1)
PROBLEM = Problem("toy", "class Model: ...", Signature((), '{"dict": {"args": [], "kwargs": {"dict": {}}}}'))
CANDIDATE = Candidate("hand", "null@null", (SourceFile("model.py", ""),))
PASSED = Verdict(CANDIDATE.digest, PROBLEM.digest, "null@null", Status.PASSED, Stage.TIME, HERE)


def test_a_plain_pass_hides_neither_a_confirmation_nor_a_rejection() -> None:
    confirmed = replace(PASSED, stage=Stage.CONFIRM)
    rejected = replace(PASSED, status=Status.WRONG_VALUES, stage=Stage.VERIFY)
    with Archive(None) as archive:
        archive.add_problem(PROBLEM)
        journal = Journal(PROBLEM, "null", archive, Deadline(60))
        assert journal.history() == ()
        told = []
        for number, verdict in enumerate([PASSED, confirmed, PASSED, rejected, PASSED]):
            journal.judged(CANDIDATE, replace(verdict, decided_at=float(number)))
            (entry,) = journal.history()
            told.append((entry.verdict.status, entry.verdict.stage))
    assert told == [
        (Status.PASSED, Stage.TIME),
        (Status.PASSED, Stage.CONFIRM),
        (Status.PASSED, Stage.CONFIRM),
        (Status.WRONG_VALUES, Stage.VERIFY),
        (Status.WRONG_VALUES, Stage.VERIFY),
    ]
