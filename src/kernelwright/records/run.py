"""A search as it is remembered."""

from dataclasses import dataclass
from enum import Enum

from kernelwright.records.candidate import Candidate
from kernelwright.records.problem import Problem
from kernelwright.records.verdict import Verdict


class EventKind(Enum):
    """What happened in a search."""

    STARTED = "started"
    WRITING = "writing"
    SUBMITTED = "submitted"
    JUDGED = "judged"
    REUSED = "reused"
    """A verdict of an earlier run stands for this one."""
    CONFIRMED = "confirmed"
    SKIPPED = "skipped"
    """A writer that cannot run here; the message says why."""
    FAILED = "failed"
    """A writer raised; the message says what. The others go on."""
    NOTE = "note"
    FINISHED = "finished"


@dataclass(frozen=True)
class Event:
    """A moment of a search, for whoever watches."""

    kind: EventKind
    at_s: float
    """Seconds since the search began."""
    writer: str = ""
    candidate: str = ""
    message: str = ""
    left_s: float = 0.0
    """Seconds of the budget left."""


@dataclass(frozen=True)
class Entry:
    """A candidate of a run with its newest verdict."""

    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True)
class Outcome:
    """The end of a search. `best` is None where nothing beat the baselines; `reason` says so in one sentence."""

    run: str
    problem: Problem
    target: str
    entries: tuple[Entry, ...]
    best: Entry | None
    reason: str
    skipped: tuple[tuple[str, str], ...] = ()
    """Writers that did not run, with the sentence that says why."""
    started_at: float = 0.0
    spent_s: float = 0.0
    interrupted: bool = False
    done: tuple[str, ...] = ()
    """Writers that had no more ideas; all they proposed was judged."""
    version: str = ""
    """Of kernelwright, which searched."""
