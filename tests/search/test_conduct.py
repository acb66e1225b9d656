"""Search's own logic before a judge that answers from the candidate's text: "40" is 40 us, "wrong" is wrong."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kernelwright.archive import Archive
from kernelwright.errors import KernelwrightError, UnknownNameError
from kernelwright.records import (
    Brief,
    Candidate,
    Case,
    Comparison,
    Entry,
    Environment,
    Event,
    EventKind,
    Facts,
    Finding,
    Outcome,
    Problem,
    Signature,
    SourceFile,
    Stage,
    Status,
    Timing,
    Trial,
    Verdict,
)
from kernelwright.search.bench import Court
from kernelwright.search.conduct import Plan, choose_writers, conduct
from kernelwright.writers import Bench, Writer
from kernelwright.writers.replay import ReplayWriter

HERE = Environment(Facts("null", "null", "null"), system="", python="", torch="", threads=1)
PROBLEM = Problem("toy", "class Model: ...", Signature((), '{"dict": {"args": [], "kwargs": {"dict": {}}}}'))


class SayingJudge:
    """Times a candidate as its text says: "40", "40 unconfirmed", "40 after 0.5" (seconds), "wrong", "broken"."""

    noise_floor = 0.02

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.confirmed: list[str] = []
        self.held: dict[str, tuple[Candidate, float]] = {}

    def submit(self, candidate: Candidate) -> Verdict:
        self.submitted.append(candidate.label)
        words = candidate.sources[0].text.split()
        if "after" in words:
            time.sleep(float(words[words.index("after") + 1]))
        if words[0] == "broken":
            raise KernelwrightError("the judge broke")
        return self._verdict(candidate, Stage.TIME)

    def confirm(self, candidate: Candidate) -> Verdict:
        self.confirmed.append(candidate.label)
        return self._verdict(candidate, Stage.CONFIRM)

    def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        return tuple(Trial(c.digest, case.digest, Status.PASSED, float(c.sources[0].text)) for c in candidates)

    def hold(self, candidate: Candidate) -> None:
        self.held[candidate.digest] = (candidate, float(candidate.sources[0].text.split()[0]))

    def _verdict(self, candidate: Candidate, stage: Stage) -> Verdict:
        words = candidate.sources[0].text.split()
        refused = words[0] == "wrong" or (stage is Stage.CONFIRM and "unconfirmed" in words)
        us = 0.0 if refused else float(words[0])
        return Verdict(
            candidate.digest,
            PROBLEM.digest,
            "null@null",
            Status.WRONG_VALUES if refused else Status.PASSED,
            stage,
            HERE,
            (Finding("values", False, "element 3 is off"),) if refused else (),
            None if refused else Timing((us,), "said"),
            comparisons=()
            if refused
            else tuple(
                Comparison(held.title, held.digest, Timing((other,), "said"), other / us, other / us, other / us)
                for held, other in self.held.values()
                if held.digest != candidate.digest
            ),
            judge="1",
        )


class SayingWriter:
    """Submits its texts one after the other."""

    def __init__(self, name: str, *texts: str, baseline: bool = False, missing: str | None = None) -> None:
        self.name, self.baseline, self._texts, self._missing = name, baseline, texts, missing
        self.heard: list[Verdict] = []
        self.brief: Brief | None = None

    def missing(self, target: str) -> str | None:
        return self._missing

    async def write(self, brief: Brief, bench: Bench) -> None:
        self.brief = brief
        for text in self._texts:
            self.heard.append(await bench.submit(proposal(self.name, text, self.baseline)))


def proposal(writer: str, text: str, baseline: bool = False) -> Candidate:
    return Candidate(writer, "null@null", (SourceFile("model.py", text),), label=text, baseline=baseline)


class Watcher:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event, entry: Entry | None) -> None:
        assert (entry is not None) == (event.kind in {EventKind.JUDGED, EventKind.REUSED, EventKind.CONFIRMED})
        self.events.append(event)

    def of(self, kind: EventKind) -> list[tuple[str, str]]:
        return [(event.writer, event.message) for event in self.events if event.kind is kind]


def hunt(
    *writers: Writer,
    judge: SayingJudge | None = None,
    archive: Archive | None = None,
    budget_s: float = 20.0,
    attempts: int = 8,
    watch: Watcher | None = None,
) -> Outcome:
    plan = Plan(PROBLEM, "null", writers, budget_s, attempts)
    return conduct(plan, Court(judge or SayingJudge(), HERE, "1"), archive or Archive(None), watch)


def eager(text: str = "100") -> SayingWriter:
    return SayingWriter("eager", text, baseline=True)


def test_the_fastest_that_is_confirmed_wins() -> None:
    judge, watch = SayingJudge(), Watcher()
    outcome = hunt(
        eager(), SayingWriter("a", "50", "20 unconfirmed"), SayingWriter("b", "wrong", "30"), judge=judge, watch=watch
    )
    assert outcome.best and outcome.best.candidate.label == "30" and outcome.best.verdict.confirmed
    assert judge.confirmed == ["20 unconfirmed", "30"]
    assert judge.submitted[0] == "100"
    assert len(outcome.entries) == 5
    assert "b 30 won" in outcome.reason
    assert watch.events[0].kind is EventKind.STARTED and watch.events[-1].kind is EventKind.FINISHED
    assert next(writer for writer, _ in watch.of(EventKind.WRITING)) == "eager"


def test_when_nothing_beats_the_baseline_the_reason_names_the_closest() -> None:
    outcome = hunt(eager(), SayingWriter("inductor", "60", baseline=True), SayingWriter("a", "80", "75"))
    assert outcome.best is None
    assert "inductor 60" in outcome.reason and "a 75" in outcome.reason and "0.80x" in outcome.reason


def test_candidates_meet_every_baseline_held_at_the_time_and_the_winner_all_of_them() -> None:
    slow = SayingWriter("inductor", "60 after 0.5", baseline=True)
    quick = SayingWriter("a", "40", "50")
    outcome = hunt(eager(), slow, quick)
    assert [item.baseline for item in quick.heard[0].comparisons] == ["eager 100"]
    assert outcome.best and {item.baseline for item in outcome.best.verdict.comparisons} == {
        "eager 100",
        "inductor 60 after 0.5",
    }


def test_a_writer_that_cannot_run_or_raises_leaves_the_others_alone() -> None:
    class Raising(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            raise ValueError("no idea")

    watch = Watcher()
    outcome = hunt(
        eager(),
        SayingWriter("absent", missing="install it"),
        Raising("bad"),
        SayingWriter("unlucky", "broken"),
        SayingWriter("a", "50"),
        watch=watch,
    )
    assert outcome.best and outcome.best.candidate.writer == "a"
    assert watch.of(EventKind.SKIPPED) == [("absent", "install it")]
    assert sorted(watch.of(EventKind.FAILED)) == [
        ("bad", "ValueError: no idea"),
        ("unlucky", "KernelwrightError: the judge broke"),
    ]
    assert dict(outcome.skipped)["absent"] == "install it"


def test_without_an_accepted_reference_nobody_else_writes() -> None:
    other = SayingWriter("a", "50")
    outcome = hunt(eager("wrong"), other)
    assert outcome.best is None and not other.heard
    assert "reference itself was not accepted" in outcome.reason and "element 3 is off" in outcome.reason


class LimitedJudge(SayingJudge):
    """Meets a limit of time with the first submission of each text that ends so."""

    def submit(self, candidate: Candidate) -> Verdict:
        verdict = super().submit(candidate)
        text = candidate.sources[0].text
        if "limit" in text and self.submitted.count(text) == 1:
            return replace(verdict, status=Status.TIMEOUT, timing=None, comparisons=())
        return verdict


def test_a_reference_that_met_a_limit_of_time_is_tried_once_more() -> None:
    judge = LimitedJudge()
    outcome = hunt(eager("100 limit"), SayingWriter("a", "50"), judge=judge)
    assert judge.submitted.count("100 limit") == 2
    assert outcome.best and outcome.best.candidate.writer == "a"


def test_a_candidate_that_met_a_limit_of_time_is_tried_again_when_brought_again() -> None:
    judge = LimitedJudge()
    stubborn = SayingWriter("a", "50 limit", "50 limit", "50 limit")
    hunt(eager(), stubborn, judge=judge)
    assert [verdict.status for verdict in stubborn.heard] == [Status.TIMEOUT, Status.PASSED, Status.PASSED]
    assert judge.submitted.count("50 limit") == 2


def test_attempts_are_counted_and_only_baseline_writers_bring_baselines() -> None:
    many = SayingWriter("a", *[str(90 - i) for i in range(9)])
    sly = SayingWriter("sly", "1", baseline=False)

    async def claim(brief: Brief, bench: Bench) -> None:
        sly.heard.append(await bench.submit(proposal("sly", "45", baseline=True)))

    sly.write = claim  # type: ignore[method-assign]
    judge = SayingJudge()
    outcome = hunt(eager(), many, sly, judge=judge, attempts=3)
    assert len(many.heard) == 3
    assert {candidate.writer for candidate, _ in judge.held.values()} == {"eager"}
    assert outcome.best and outcome.best.candidate.writer == "sly" and not outcome.best.candidate.baseline


def test_two_writers_with_one_idea_are_judged_once() -> None:
    judge = SayingJudge()
    first, second = SayingWriter("a", "50 after 0.2"), SayingWriter("b", "50 after 0.2")
    hunt(eager(), first, second, judge=judge)
    assert judge.submitted.count("50 after 0.2") == 1
    assert first.heard == second.heard


def test_the_time_is_up_and_what_was_judged_counts() -> None:
    endless = SayingWriter("endless", "50", *["60 after 0.3"] + [f"{61 + i} after 0.3" for i in range(30)])
    begun = time.monotonic()
    outcome = hunt(eager(), endless, SayingWriter("inductor", "70 after 60", baseline=True), budget_s=1.5, attempts=99)
    assert time.monotonic() - begun < 10
    assert outcome.best and outcome.best.candidate.label == "50"
    assert 2 <= len(outcome.entries) < 12
    assert "did not finish" in dict(outcome.skipped)["inductor"]


def test_no_confirmation_begins_that_the_budget_does_not_hold() -> None:
    class Slow(SayingJudge):
        def confirm(self, candidate: Candidate) -> Verdict:
            time.sleep(3.5)
            return super().confirm(candidate)

    judge = Slow()
    outcome = hunt(eager(), SayingWriter("a", "20 unconfirmed", "30 unconfirmed"), judge=judge, budget_s=6.0)
    assert judge.confirmed == ["20 unconfirmed"], "the first is tried in any case"
    assert outcome.best is None


def test_a_writer_that_blocks_its_thread_does_not_hold_the_search() -> None:
    class Blocking(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            await bench.submit(proposal("blocking", "50"))
            time.sleep(8)

    begun = time.monotonic()
    outcome = hunt(eager(), Blocking("blocking"), budget_s=1.0)
    assert time.monotonic() - begun < 6
    assert outcome.best and outcome.best.candidate.label == "50"


def test_a_second_run_continues_from_the_archive(tmp_path) -> None:
    path = tmp_path / "archive.sqlite"
    hunt(eager(), SayingWriter("a", "50", "wrong"), archive=Archive(path))
    judge, watch = SayingJudge(), Watcher()
    again = SayingWriter("a", "50", "wrong", "40")
    outcome = hunt(eager(), again, judge=judge, watch=watch, archive=Archive(path), attempts=1)
    assert judge.submitted == ["100", "40"], "the baseline is timed anew, and only what is new is judged"
    assert [writer for writer, _ in watch.of(EventKind.REUSED)] == ["a", "a"]
    assert again.brief and {parent.candidate.label for parent in again.brief.parents} == {"50", "wrong"}
    assert outcome.best and outcome.best.candidate.label == "40"


def test_a_second_run_first_proposes_what_was_confirmed(tmp_path) -> None:
    path = tmp_path / "archive.sqlite"
    hunt(eager(), SayingWriter("a", "50", "40", "60"), archive=Archive(path))
    watch, b = Watcher(), SayingWriter("b", "30 unconfirmed")
    outcome = hunt(eager(), b, ReplayWriter(), watch=watch, archive=Archive(path))
    assert [message.partition(":")[0] for _, message in watch.of(EventKind.REUSED)] == ["a 40"]
    assert [writer for writer, _ in watch.of(EventKind.WRITING)] == ["eager", "replay", "b"]
    assert outcome.best and outcome.best.candidate.label == "40" and not outcome.skipped
    judge = SayingJudge()
    plan = Plan(PROBLEM, "null", (eager(), ReplayWriter()))
    conduct(plan, Court(judge, replace(HERE, torch="newer"), "1"), Archive(path))
    assert judge.submitted == ["100", "40"], "elsewhere it is judged anew"
    assert "no candidates" in dict(hunt(eager(), ReplayWriter(), archive=Archive(None)).skipped)["replay"]


def test_everything_is_in_the_archive_as_it_happens(tmp_path) -> None:
    path = tmp_path / "archive.sqlite"
    seen: list[Status] = []

    class Peeking(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            verdict = await bench.submit(proposal("peeking", "50"))
            await bench.trial([proposal("peeking", "49"), proposal("peeking", "48")], Case())
            with Archive(path) as other:
                seen.extend(found.status for found in other.verdicts(candidate=verdict.candidate))
                assert other.candidate(verdict.candidate).label == "50"
                assert len(other.trials(problem=PROBLEM.digest)) == 2

    watch = Watcher()
    outcome = hunt(eager(), Peeking("peeking"), archive=Archive(path), watch=watch)
    assert not watch.of(EventKind.FAILED) and seen == [Status.PASSED]
    stored = Archive(path).outcome(outcome.run)
    assert stored == outcome


def test_a_killed_run_has_kept_what_was_judged(tmp_path) -> None:
    path = tmp_path / "archive.sqlite"
    found: list[Outcome] = []

    class Looking(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            await bench.submit(proposal("a", "50"))
            with Archive(path) as other:
                found.append(other.outcome(other.find_run("last")))

    hunt(eager(), Looking("a"), archive=Archive(path))
    assert [entry.candidate.label for entry in found[0].entries] == ["100", "50"] and found[0].interrupted


def test_ctrl_c_keeps_and_confirms_what_was_found() -> None:
    class Interrupting(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            await bench.submit(proposal("a", "50"))
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)

    begun = time.monotonic()
    outcome = hunt(eager(), Interrupting("a"), budget_s=60)
    assert time.monotonic() - begun < 10
    assert outcome.interrupted and outcome.best and outcome.best.candidate.label == "50"


def test_a_writer_without_time_is_not_told_to_have_nothing() -> None:
    class Thinking(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            await asyncio.sleep(60)

    assert "the time was up before anything was proposed" in hunt(eager(), Thinking("a"), budget_s=0.5).reason
    assert "no writer proposed anything" in hunt(eager(), SayingWriter("a"), budget_s=10).reason


def test_a_second_ctrl_c_stops_at_once() -> None:
    class Slow(SayingJudge):
        def confirm(self, candidate: Candidate) -> Verdict:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)
            raise AssertionError("not reached")

    class Interrupting(SayingWriter):
        async def write(self, brief: Brief, bench: Bench) -> None:
            await bench.submit(proposal("a", "50"))
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)

    outcome = hunt(eager(), Interrupting("a"), judge=Slow(), budget_s=60)
    assert outcome.interrupted and outcome.best is None
    assert len(outcome.entries) == 2


def test_writers_are_found_by_name_with_the_reference_first() -> None:
    with pytest.raises(UnknownNameError, match="no writer is called 'eagr'"):
        choose_writers(["eagr"])
    order = [writer.name for writer in choose_writers(["template", "inductor"])]
    assert order == ["eager", "inductor", "template"]


def test_no_thread_of_a_finished_search_stays() -> None:
    before = threading.active_count()
    hunt(eager(), SayingWriter("a", "50"))
    time.sleep(0.2)
    assert threading.active_count() <= before
