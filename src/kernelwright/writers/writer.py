"""The door between those who propose and those who judge.

A writer is handed a brief and a bench. It knows neither judge nor archive nor any other writer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelwright.records import Brief, Call, Candidate, Case, Trial, Verdict


@dataclass(frozen=True)
class Standing:
    """How far the members of a swarm are, for whoever chooses the next turn."""

    strategy: str
    """"best-of-swarm", "refine-best" or "islands"."""
    turns: tuple[tuple[str, int], ...]
    """Each member that still takes part, with the turns it has begun."""
    idle: frozenset[str]
    """Members that could begin one now."""
    attempts: int = 5
    """Turns of each member."""
    crossings: int = 1
    """Of best-of-swarm: turns after these, in which members see each other's best."""
    before: frozenset[str] = frozenset()
    """Digests of candidates of an earlier run that count as made in this one."""


@dataclass(frozen=True)
class Turn:
    """Who writes next, and what it is told."""

    member: str
    kind: str
    """"write" (from nothing), "revise" (its own last one), "cross" (from others' best)."""
    brief: Brief


class Bench(Protocol):
    """What a writer may ask for. Many trials and submissions may be awaited at once; the bench keeps the quiet."""

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        """A cheap, sandboxed look at many variants of one kernel: built together, one case, short timing.

        It may reject and rank, never accept; it is archived and never shown as a speedup.
        """
        ...

    async def submit(self, candidate: Candidate) -> Verdict:
        """The full judge: build, screen, verify, time. A candidate already judged here is answered from the archive."""
        ...

    def turn(self, standing: Standing) -> Turn | None:
        """Which idle member of a swarm writes next and from what; None while there is none."""
        ...

    def tell(self, said: str | Call) -> None:
        """A word for whoever watches, or a call to a language model, which is archived as well."""
        ...


class Writer(Protocol):
    """Proposes candidates for a problem. One file of this room, found by its `name`.

    It may say more of itself: `repeats` (True: it proposes the same again for the same brief, so that asking it once is
    enough), `attempts` (how many candidates it submits, where it speaks for many) and `named_only` (True: it is asked
    where it is named, and not where everybody is).
    """

    name: str
    baseline: bool
    """Whether its candidates are what others are measured against: the user's own code run by a stock tool."""

    def missing(self, target: str) -> str | None:
        """Why it cannot write for `target` (a device, as "cpu") here, as a sentence for the user; None if it can."""
        ...

    async def write(self, brief: Brief, bench: Bench) -> None:
        """Proposes until it has no more ideas, `brief.attempts` are spent or it is cancelled."""
        ...
