"""What a search has seen so far: told to the archive and to whoever watches at the moment it happens."""

import threading
import time
from collections.abc import Callable, Sequence

from kernelwright.archive import Archive
from kernelwright.records import Call, Candidate, Entry, Event, EventKind, Outcome, Problem, Trial, Verdict
from kernelwright.search import select
from kernelwright.search.budget import Deadline

Watch = Callable[[Event, Entry | None], None]
"""Called from several threads, one at a time. The entry comes with JUDGED, REUSED and CONFIRMED."""


class Journal:
    """Everything is on disk before the next thing begins, so that a killed run loses at most what is in flight.

    Thread-safe. Closed by `finish`, after which late results of abandoned candidates still reach the archive and
    nothing else.
    """

    def __init__(
        self, problem: Problem, device: str, archive: Archive, deadline: Deadline, watch: Watch | None = None
    ) -> None:
        self.problem, self.device, self.deadline = problem, device, deadline
        self._archive, self._watch = archive, watch
        self._entries: dict[str, Entry] = {}
        self._lock = threading.RLock()
        self._open = True
        self.started_at = time.time()
        self.run = archive.begin_run(problem, device, self.started_at)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Each judged candidate once, with its newest verdict, in the order of judgement."""
        with self._lock:
            return tuple(self._entries.values())

    def entry(self, candidate: str) -> Entry | None:
        """The candidate of that digest, if it was judged in this run."""
        with self._lock:
            return self._entries.get(candidate)

    def history(self) -> tuple[Entry, ...]:
        """What the archive knows of this problem on this device, from all runs, by the verdicts that count."""
        verdicts = self._archive.verdicts(problem=self.problem.digest, target=self.device)
        return tuple(Entry(self._archive.candidate(item.candidate), item) for item in select.counting(verdicts))

    def proven(self) -> tuple[Candidate, ...]:
        """Winners of all runs for this problem, and for others that compute the same, fastest first."""
        found = [self._archive.best(self.problem.digest, self.device)]
        if self.problem.region is not None:
            found += [entry for _, entry in self._archive.find_region(self.problem.region.digest, self.device)]
        return tuple(dict.fromkeys(entry.candidate for entry in found if entry is not None))

    def known(self, candidate: Candidate, environment: str, judge: str) -> Verdict | None:
        """The verdict of an earlier run under the same judge and in the same environment."""
        return self._archive.verdict_for(candidate.digest, self.problem.digest, environment, judge)

    def event(self, kind: EventKind, writer: str = "", candidate: str = "", message: str = "") -> None:
        with self._lock:
            self._tell(kind, writer, candidate, message, None)

    def called(self, call: Call) -> None:
        """A question to a language model, with its answer."""
        with self._lock:
            self._archive.add_call(self.run, call)
            cost = "" if call.cost_usd is None else f", ${call.cost_usd:.4f}"
            tokens = f"{call.input_tokens + call.output_tokens:,} tokens{cost}, {call.seconds:.0f} s"
            ended = "" if call.finish == "stop" else f"; {call.finish}"
            self._tell(EventKind.NOTE, call.member, call.candidate, f"answered: {tokens}{ended}", None)

    def submitted(self, candidate: Candidate) -> None:
        with self._lock:
            self._archive.add_candidate(candidate)
            self._tell(EventKind.SUBMITTED, candidate.writer, candidate.digest, candidate.title, None)

    def judged(self, candidate: Candidate, verdict: Verdict, kind: EventKind = EventKind.JUDGED) -> None:
        """`kind` is JUDGED, CONFIRMED, or REUSED for a verdict that the archive holds already."""
        with self._lock:
            if not self._open:
                self._archive.add_verdict(verdict)
                return
            self._archive.add_verdict(verdict, self.run, candidate)
            entry = Entry(candidate, verdict)
            self._entries[candidate.digest] = entry
            self._tell(kind, candidate.writer, candidate.digest, f"{candidate.title}: {describe(verdict)}", entry)

    def tried(self, candidates: Sequence[Candidate], trials: Sequence[Trial]) -> None:
        for candidate in candidates:
            self._archive.add_candidate(candidate)
        for trial in trials:
            self._archive.add_trial(self.problem.digest, trial)

    def finish(self, outcome: Outcome) -> None:
        with self._lock:
            self._tell(
                EventKind.FINISHED, "", outcome.best.candidate.digest if outcome.best else "", outcome.reason, None
            )
            self._archive.finish_run(outcome)
            self._open = False

    def _tell(self, kind: EventKind, writer: str, candidate: str, message: str, entry: Entry | None) -> None:
        if not self._open:
            return
        event = Event(kind, self.deadline.spent_s, writer, candidate, message, self.deadline.left_s)
        self._archive.record_event(self.run, event)
        if self._watch:
            self._watch(event, entry)


def describe(verdict: Verdict) -> str:
    """A verdict in a few words: status, time, speedup over the best baseline; or why it failed."""
    if verdict.timing is None:
        return f"{verdict.status.value} at {verdict.stage.value}" + (f": {verdict.reason}" if verdict.reason else "")
    words = f"{verdict.status.value}, {verdict.timing.median_us:,.1f} us"
    best = verdict.best_baseline
    return words + (f", {best.speedup:.2f}x over {best.baseline}" if best else "")
