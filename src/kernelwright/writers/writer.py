"""The door between those who propose and those who judge.

A writer is handed a brief and a bench. It knows neither judge nor archive nor any other writer.
"""

from collections.abc import Sequence
from typing import Protocol

from kernelwright.records import Brief, Candidate, Case, Trial, Verdict


class Bench(Protocol):
    """What a writer may ask for. Both verbs may be awaited many times at once; the bench keeps order and quiet."""

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        """A cheap, sandboxed look at many variants of one kernel: built together, one case, short timing.

        It may reject and rank, never accept; it is archived and never shown as a speedup.
        """
        ...

    async def submit(self, candidate: Candidate) -> Verdict:
        """The full judge: build, screen, verify, time. A candidate already judged here is answered from the archive."""
        ...


class Writer(Protocol):
    """Proposes candidates for a problem. One file of this room, found by its `name`."""

    name: str
    baseline: bool
    """Whether its candidates are what others are measured against: the user's own code run by a stock tool."""

    def missing(self, target: str) -> str | None:
        """Why it cannot write for `target` (a device, as "cpu") here, as a sentence for the user; None if it can."""
        ...

    async def write(self, brief: Brief, bench: Bench) -> None:
        """Proposes until it has no more ideas, `brief.attempts` are spent or it is cancelled."""
        ...
