"""The bench that writers are handed: judge, archive and threads behind two verbs."""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from kernelwright.errors import KernelwrightError
from kernelwright.records import Brief, Call, Candidate, Case, Environment, EventKind, Status, Trial, Verdict
from kernelwright.search import select
from kernelwright.search.journal import Journal
from kernelwright.search.threads import DaemonThreads
from kernelwright.writers import Standing, Turn, Writer


class Jury(Protocol):
    """What search asks of a judge (see kernelwright.judge.Judge)."""

    @property
    def noise_floor(self) -> float: ...
    def submit(self, candidate: Candidate) -> Verdict: ...
    def confirm(self, candidate: Candidate) -> Verdict: ...
    def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]: ...
    def hold(self, candidate: Candidate) -> None: ...


@dataclass(frozen=True)
class Court:
    """A judge, and under which conditions its verdicts stand."""

    judge: Jury
    environment: Environment
    version: str
    """Of the judge's rules."""
    slots: int = 0
    """Candidates that are judged at once; 0 for what this machine's cores allow."""


def side_by_side(cores: int) -> int:
    """Candidates that one judge builds and verifies at once on so many cores; it times them one after the other."""
    return max(2, min(8, cores // 4))


class AttemptsSpent(KernelwrightError):
    """A writer has submitted as often as it may. Ends its `write`; it is no failure."""


class Docket:
    """The candidates before the judge. Each is judged once a run, whoever brings it and how often."""

    def __init__(self, court: Court, journal: Journal) -> None:
        self._court, self._judge, self.journal = court, court.judge, journal
        # Builds and checks overlap, timings never do: the judge sees to it. A stock compiler takes minutes, so
        # baselines have threads of their own and proposals never queue behind them.
        cores = os.cpu_count() or 2
        self._threads = DaemonThreads(court.slots or side_by_side(cores), "kernelwright-judge")
        self._stock = DaemonThreads(max(1, min(3, cores // 4)), "kernelwright-stock")
        self._pending: dict[str, Future[Verdict]] = {}

    @property
    def pending(self) -> tuple[Future[Verdict], ...]:
        """What was handed to the judge and has no verdict yet."""
        return tuple(future for future in self._pending.values() if not future.done())

    def answer(self, candidate: Candidate) -> Verdict | None:
        """The verdict that stands already, in this run or an earlier one. Baselines are always timed anew, and what met
        a limit of time is tried again when it is brought again."""
        here = self.journal.entry(candidate.digest)
        if here:
            return here.verdict if select.final(here.verdict) else None
        if candidate.baseline:
            return None
        verdict = self.journal.known(candidate, self._court.environment.digest, self._court.version)
        if verdict is None or not select.final(verdict):
            return None
        self.journal.judged(candidate, verdict, EventKind.REUSED)
        return verdict

    def submit(self, candidate: Candidate) -> Future[Verdict]:
        """Hands the candidate to the judge, unless it is there already."""
        before = self._pending.get(candidate.digest)
        if before is None or _met_a_limit(before):
            self.journal.submitted(candidate)
            threads = self._stock if candidate.baseline else self._threads
            self._pending[candidate.digest] = threads.submit(self._decide, candidate)
        return self._pending[candidate.digest]

    def trial(self, candidates: Sequence[Candidate], case: Case) -> Future[tuple[Trial, ...]]:
        return self._threads.submit(self._try, candidates, case)

    def abandon(self) -> None:
        """Takes back what the judge has not begun with."""
        for future in self.pending:
            future.cancel()

    def close(self) -> None:
        """Abandons what waits; nobody waits for what the judge is at."""
        self.abandon()
        self._threads.close()
        self._stock.close()

    def _decide(self, candidate: Candidate) -> Verdict:
        verdict = self._judge.submit(candidate)
        if candidate.baseline and verdict.status is Status.PASSED:
            self._judge.hold(candidate)
        self.journal.judged(candidate, verdict)
        return verdict

    def _try(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        trials = self._judge.trial(candidates, case)
        self.journal.tried(candidates, trials)
        return trials


def _met_a_limit(before: Future[Verdict]) -> bool:
    ended = before.done() and not before.cancelled() and before.exception() is None
    return ended and not select.final(before.result())


class WriterBench:
    """One writer's bench: counts its attempts and lets only a baseline writer bring baselines."""

    def __init__(self, docket: Docket, writer: Writer, brief: Brief) -> None:
        self._docket, self._writer, self._left = docket, writer.name, brief.attempts
        self._baseline, self._brief = writer.baseline, brief

    def tell(self, said: str | Call) -> None:
        """See Bench."""
        journal = self._docket.journal
        if isinstance(said, Call):
            journal.called(said)
        else:
            journal.event(EventKind.NOTE, self._writer, message=said)

    def turn(self, standing: Standing) -> Turn | None:
        """See Bench."""
        from kernelwright.context import rewritten

        journal = self._docket.journal
        entries = journal.entries
        if standing.before:
            entries = (*(item for item in journal.history() if item.candidate.digest in standing.before), *entries)
        chosen = select.turn(standing, entries)
        if chosen is None:
            return None
        told = replace(self._brief, parents=chosen.parents, own=chosen.own)
        return Turn(chosen.member, chosen.kind, rewritten(told))

    async def submit(self, candidate: Candidate) -> Verdict:
        """See Bench. What was judged before costs no attempt. Raises AttemptsSpent."""
        candidate = replace(candidate, baseline=candidate.baseline and self._baseline)
        known = self._docket.answer(candidate)
        if known:
            return known
        if not self._baseline:
            if self._left <= 0:
                raise AttemptsSpent
            self._left -= 1
        # Shielded: a cancelled writer must not cancel what another one waits for as well.
        return await asyncio.shield(asyncio.wrap_future(self._docket.submit(candidate)))

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        return await asyncio.wrap_future(self._docket.trial(candidates, case))
