"""A search: writers propose side by side, the judge decides, and the winner is confirmed before it is called one."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernelwright import __version__
from kernelwright.archive import Archive
from kernelwright.errors import UnknownNameError
from kernelwright.plugins import find, members
from kernelwright.records import Beside, Entry, EventKind, Outcome, Problem, Status
from kernelwright.search import select
from kernelwright.search.bench import AttemptsSpent, Court, Docket, WriterBench
from kernelwright.search.budget import Deadline
from kernelwright.search.executors import Executor
from kernelwright.search.executors.local import LocalExecutor
from kernelwright.search.journal import Journal, Watch, describe
from kernelwright.search.regions import RegionsWriter, too_large
from kernelwright.search.settled import settled
from kernelwright.writers import Writer
from kernelwright.writers.replay import ReplayWriter

if TYPE_CHECKING:
    from torch import Tensor

REFERENCE = "eager"
"""The writer every other one is measured against; it runs even where only others were asked for."""

CONFIRM_S = 25.0
"""Kept back from the budget for confirming, but never more than a fifth of it."""

LINGER_S = 10.0
"""How long candidates in the judge's hands when the time is up may still take."""

BUSY = 0.25
"""A noise floor above this says that something else is using the machine, and whoever watches is told."""

PROVEN = 2
"""How many winners of earlier runs are proposed before anything new."""

WHOLE_FIRST = 0.3
"""Of the budget, at most, for proposals for a large module as a whole before its pieces are searched."""


@dataclass(frozen=True)
class Plan:
    """What is searched, by whom and for how long."""

    problem: Problem
    device: str
    writers: tuple[Writer, ...]
    budget_s: float = 300.0
    attempts: int = 8
    """How many candidates each writer may submit."""
    beside: Beside = field(default_factory=Beside)
    """What the user gives the writers beside the problem."""

    @property
    def writing_s(self) -> float:
        """What of the budget the writers have; the rest confirms."""
        return self.budget_s - min(CONFIRM_S, self.budget_s / 5)


@dataclass(frozen=True)
class _Hunt:
    """A plan under way."""

    plan: Plan
    court: Court
    journal: Journal
    docket: Docket
    deadline: Deadline
    skipped: dict[str, str]
    done: list[str] = field(default_factory=list)


def search(
    problem: Problem,
    device: str = "cpu",
    *,
    weights: Mapping[str, "Tensor"] | None = None,
    writers: Sequence[str | Writer] | None = None,
    budget_s: float = 300.0,
    attempts: int = 8,
    archive: Archive | None = None,
    watch: Watch | None = None,
    beside: Beside = Beside(),
    executor: Executor | None = None,
    again: bool = False,
) -> Outcome:
    """Looks for candidates that beat the baselines on `device` and returns everything that was found.

    `writers` are names or members of their own; None asks `everybody` who can here. Without an archive nothing is kept.
    `executor`: where candidates are judged; None: on this machine. What was searched to the end before, with writers
    who would propose the same, is answered from the archive, unless `again`.
    Ctrl-C ends the writers, and the best so far is still confirmed; a second one ends at once. Raises UsageError.
    """
    plan = Plan(problem, device, choose_writers(writers), budget_s, attempts, beside)
    archive = archive or Archive(None)
    executor = executor or LocalExecutor()
    if (
        not again
        and executor.name == LocalExecutor.name
        and (before := settled(problem, device, plan.writers, archive))
    ):
        return before
    # Pieces are judged while the whole waits, which takes a second court: a cluster's devices are all in the first.
    if too_large(problem) and executor.name == "local" and not all(writer.baseline for writer in plan.writers):

        def search_piece(
            piece: Problem,
            its_weights: Mapping[str, "Tensor"],
            its_budget_s: float,
            its_watch: Watch,
            stop: threading.Event,
        ) -> Outcome:
            part = Plan(piece, device, plan.writers, its_budget_s, attempts)
            return _open_and_conduct(part, executor, its_weights, archive, its_watch, stop)

        regions = RegionsWriter(search_piece, weights)
        return _open_and_conduct(replace(plan, writers=(*plan.writers, regions)), executor, weights, archive, watch)
    return _open_and_conduct(plan, executor, weights, archive, watch)


def _open_and_conduct(
    plan: Plan,
    executor: Executor,
    weights: Mapping[str, "Tensor"] | None,
    archive: Archive,
    watch: Watch | None,
    stop: threading.Event | None = None,
) -> Outcome:
    with executor.court(plan.problem, plan.device, weights) as court:
        return conduct(plan, court, archive, watch, stop)


def everybody() -> list[str]:
    """The writers that are asked where none is named."""
    found = members("writers", "Writer").items()
    return [name for name, kind in found if not getattr(kind, "named_only", False)]


def choose_writers(names: Sequence[str | Writer] | None) -> tuple[Writer, ...]:
    """Writers by name, the reference first and other baselines before the rest. Raises UnknownNameError."""
    if names is None:
        names = everybody()
    chosen: dict[str, Writer] = {}
    with contextlib.suppress(UnknownNameError):
        chosen[REFERENCE] = find("writers", "Writer", REFERENCE)()
    for name in names:
        writer = find("writers", "Writer", name)() if isinstance(name, str) else name
        chosen[writer.name] = writer
    return tuple(sorted(chosen.values(), key=lambda writer: (writer.name != REFERENCE, not writer.baseline)))


def conduct(
    plan: Plan, court: Court, archive: Archive, watch: Watch | None = None, stop: threading.Event | None = None
) -> Outcome:
    """The search itself, before an open judge. `stop` ends it from another thread, as Ctrl-C does in the main one."""
    deadline = Deadline(plan.budget_s)
    journal = Journal(plan.problem, plan.device, archive, deadline, watch)
    docket = Docket(court, journal)
    hunt = _Hunt(plan, court, journal, docket, deadline, {})
    journal.event(EventKind.STARTED, message=f"{plan.problem.name} on {plan.device}, {plan.budget_s:.0f} s")
    interrupted, cut, unfinished = False, False, 0
    best: Entry | None = None
    writing = _Writing(lambda: _write_all(hunt))
    try:
        try:
            writing.start()
            writing.join(plan.writing_s, stop)
            interrupted = stop is not None and stop.is_set()
            cut = writing.alive
            writing.stop()
            docket.abandon()
            wait(docket.pending, timeout=min(LINGER_S, deadline.left_s))
        except KeyboardInterrupt:
            interrupted = True
            journal.event(EventKind.NOTE, message="interrupted: confirming the best so far; Ctrl-C again stops at once")
            writing.stop()
            docket.abandon()
        unfinished = len(docket.pending)
        best = None if stop and stop.is_set() else _confirm(hunt)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        docket.close()
    outcome = Outcome(
        run=journal.run,
        problem=plan.problem,
        target=plan.device,
        entries=journal.entries,
        best=best,
        reason=_reason(journal.entries, best, interrupted, cut, unfinished),
        skipped=tuple(hunt.skipped.items()),
        started_at=journal.started_at,
        spent_s=deadline.spent_s,
        interrupted=interrupted,
        done=() if unfinished or interrupted else tuple(hunt.done),
        version=__version__,
    )
    journal.finish(outcome)
    return outcome


class _Writing:
    """The writers, in an event loop on a thread of its own: one who blocks delays neither deadline nor Ctrl-C.

    They share one loop, so that only one of them runs Python at a time: capture and tracing are not thread-safe.
    """

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._main = main
        self._thread = threading.Thread(target=self._run, name="kernelwright-writers", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._ready = threading.Event()

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    @property
    def alive(self) -> bool:
        """Whether a writer still writes."""
        return self._thread.is_alive()

    def join(self, timeout_s: float, stop: threading.Event | None = None) -> None:
        """Waits until all have written, the time is up, or `stop` is set."""
        until = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < until and not (stop and stop.is_set()):
            self._thread.join(max(0.0, min(0.2, until - time.monotonic())))

    def stop(self) -> None:
        """Cancels those still writing and gives them a moment to leave."""
        if self._thread.is_alive() and self._loop and self._task:
            with contextlib.suppress(RuntimeError):  # the loop closed by itself in between
                self._loop.call_soon_threadsafe(self._task.cancel)
            self.join(2.0)

    def _run(self) -> None:
        async def main() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            self._ready.set()
            await self._main()

        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(main())


async def _write_all(hunt: _Hunt) -> None:
    """The reference first, since everything is timed beside it; what was proven before; then all others at once."""
    able = []
    proven = ReplayWriter(hunt.journal.proven()[:PROVEN])
    for writer in hunt.plan.writers:
        if writer.name == proven.name and writer.missing(hunt.plan.device):
            writer = proven  # by its name alone it has nothing to replay
        why = writer.missing(hunt.plan.device)
        if why is None:
            able.append(writer)
        else:
            _skip(hunt, writer, EventKind.SKIPPED, why)
    reference = [writer for writer in able if writer.name == REFERENCE]
    for writer in reference:
        await _write(hunt, writer)
        if any(entry.verdict.status is Status.TIMEOUT for entry in hunt.journal.entries):
            hunt.journal.event(EventKind.NOTE, writer.name, message="met a limit of time: once more")
            await _write(hunt, writer)
    if reference and not any(entry.verdict.status is Status.PASSED for entry in hunt.journal.entries):
        return
    if proven in able:
        await _write(hunt, proven)
    async with asyncio.TaskGroup() as group:
        first = (*reference, proven)
        others = [writer for writer in able if writer not in first and not isinstance(writer, RegionsWriter)]
        tasks = {writer.name: group.create_task(_write(hunt, writer)) for writer in others}
        proposing = [tasks[writer.name] for writer in others if not writer.baseline]
        for writer in able:
            if isinstance(writer, RegionsWriter):
                # Those who look at the whole come first: two searches at once would share the cores.
                if proposing:
                    await asyncio.wait(proposing, timeout=hunt.deadline.left_s * WHOLE_FIRST)
                await _write(hunt, writer)


async def _write(hunt: _Hunt, writer: Writer) -> None:
    from kernelwright.context import brief

    plan, journal = hunt.plan, hunt.journal
    # Those who speak for many (a swarm, agents, a run replayed) say how many candidates that makes.
    attempts = getattr(writer, "attempts", plan.attempts)
    journal.event(EventKind.WRITING, writer.name)
    try:
        task = brief(
            plan.problem,
            plan.device,
            hunt.court.environment.facts,
            select.parents(journal.history()),
            max(0.0, plan.writing_s - hunt.deadline.spent_s),
            attempts,
            beside=plan.beside,
        )
        await writer.write(task, WriterBench(hunt.docket, writer, task))
        hunt.done.append(writer.name)
    except AttemptsSpent:
        journal.event(EventKind.NOTE, writer.name, message=f"has spent its {attempts} attempts")
    except asyncio.CancelledError:
        if writer.baseline:
            _skip(hunt, writer, EventKind.NOTE, "did not finish within the budget")
        raise
    except Exception as error:  # a writer may be anyone's code, and its failure is its own
        _skip(hunt, writer, EventKind.FAILED, f"{type(error).__name__}: {error}")


def _skip(hunt: _Hunt, writer: Writer, kind: EventKind, why: str) -> None:
    hunt.skipped[writer.name] = why
    hunt.journal.event(kind, writer.name, message=why)


def _confirm(hunt: _Hunt) -> Entry | None:
    """The first challenger that wins again on fresh seeds. One is tried even when the time is up; another only if what
    the last one took is still left."""
    if not select.challengers(hunt.journal.entries, 0.0):
        return None
    noise = hunt.court.judge.noise_floor
    if noise > BUSY:
        hunt.journal.event(
            EventKind.NOTE, message=f"other work disturbs the clock: equal kernels differ by {noise:.0%}"
        )
    tried: set[str] = set()
    took_s = 0.0
    while True:
        waiting = [e for e in select.challengers(hunt.journal.entries, noise) if e.candidate.digest not in tried]
        if not waiting or (tried and hunt.deadline.left_s <= took_s):
            return None
        candidate = waiting[0].candidate
        tried.add(candidate.digest)
        hunt.journal.event(EventKind.NOTE, candidate.writer, candidate.digest, f"confirming {candidate.title}")
        began_s = hunt.deadline.spent_s
        verdict = hunt.court.judge.confirm(candidate)
        took_s = hunt.deadline.spent_s - began_s
        hunt.journal.judged(candidate, verdict, EventKind.CONFIRMED)
        if select.wins(verdict, noise):
            return Entry(candidate, verdict)


def _hosted(entries: Sequence[Entry]) -> str:
    """What can be said of candidates that a host has run in the device's place."""
    passed = [entry for entry in entries if entry.verdict.status is Status.PASSED and not entry.candidate.baseline]
    if not passed:
        return "; no candidate passed"
    least = select.estimated(passed)
    if not least:
        return f"; the first that passed is {passed[0].candidate.title}"
    return f"; {len(passed)} passed, of which {least[0].candidate.title} has the lowest estimate (no measurement)"


def _reason(entries: Sequence[Entry], best: Entry | None, interrupted: bool, late: bool, unfinished: int) -> str:
    """One sentence: why the winner won, or why the original stays."""
    rivals = select.baselines(entries)
    if best:
        return f"{best.candidate.title} won: {describe(best.verdict)}"
    cut = " before the search was interrupted" if interrupted else ""
    if not rivals:
        stock = [entry.verdict for entry in entries if entry.candidate.baseline]
        if entries and not any(entry.verdict.native for entry in entries):
            return f"verdicts on this device carry no time here, so nothing can be called faster{_hosted(entries)}"
        if stock:
            return f"the reference itself was not accepted: {describe(stock[0])}"
        return f"no baseline was timed{cut}, so nothing can be called faster"
    fastest = rivals[0].candidate.title
    others = [entry for entry in entries if not entry.candidate.baseline]
    if not others:
        if unfinished:
            return f"the time was up while {unfinished} candidates were still judged; only {fastest} is timed"
        if late and not interrupted:
            return f"the time was up before anything was proposed; only {fastest} is timed"
        return f"no writer proposed anything{cut}; the fastest baseline is {fastest}"
    fit = select.ranked(entries)
    if not fit:
        return f"none of {len(others)} candidates passed{cut}; the fastest baseline is {fastest}"
    speedup, low = select.lead(fit[0].verdict, rivals)
    stands = f"the closest, {fit[0].candidate.title}, stands at {speedup:.2f}x of it"
    if speedup > 1:
        stands += f", and with 95 % certainty only above {low:.2f}x"
    return f"no candidate beat {fastest} beyond this machine's noise{cut}; {stands}"
