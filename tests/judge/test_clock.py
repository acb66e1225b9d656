"""The clock against sessions whose true times are known, and one real one."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from kernelwright import sandbox
from kernelwright.judge import clock
from kernelwright.judge.clock import time_turns
from kernelwright.judge.fresh import Batch, Given
from kernelwright.judge.grounds import Timed
from kernelwright.judge.session import Expected, Failure, Loaded, Run, Session, Started, State, Window
from kernelwright.judge.steps import Watched
from kernelwright.records import Candidate, Problem, Signature, SourceFile, Status, TensorSpec, flatten
from kernelwright.targets import LocalBroker
from kernelwright.targets.surroundings import Change

EXPECTED = Expected.of(torch.zeros(4))


@pytest.fixture(autouse=True)
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_SETTLE_S", 0.0)


class Scripted:
    """A session that only says what its windows take: c + n t, with noise, and what the test adds."""

    def __init__(self, call_us: float, *, baseline: bool = False, wake_us: float = 100, noise: float = 0.01) -> None:
        self.candidate = Candidate("t", "torch@cpu", (SourceFile("model.py", ""),), baseline=baseline)
        self.call_us, self.wake_us, self.noise = call_us, wake_us, noise
        self.copy_call_us = 5.0
        self.sizes: list[int] = []
        self.revealed: list[int] = []
        self.seen: list[int] = []
        self.random = random.Random(1)
        self.lost: Failure | None = None
        self.log = ""
        self.peak_memory_bytes: int | None = None

    def window(self, calls: Batch, expected: Expected, *, reveal: Sequence[int] = (), keep: int = 0) -> Window:
        assert expected is EXPECTED and all(index < len(calls) for index in reveal)
        self.sizes.append(len(calls))
        self.revealed.append(len(reveal))
        self.seen += [int(calls.leaves(index)[0]) for index in range(len(calls))]
        noise = 1 + self.noise * abs(self.random.gauss(0, 1))
        return Window(
            calls=len(calls),
            forward_us=(self.wake_us + len(calls) * self.call_us) * noise,
            copy_us=(self.wake_us + len(reveal) * self.copy_call_us) * noise if reveal else 0.0,
            copied=len(reveal),
            results=tuple((calls.leaves(call)[0] + 1,) for call in reveal[:keep]),
        )

    def beside(self, calls: Batch, expected: Expected) -> Window:
        return self.window(calls, expected)

    def start(self) -> Started:
        return Started()

    def load_weights(self, weights: Mapping[str, Tensor]) -> Loaded:
        return Loaded()

    def run(self, leaves: Sequence[Tensor], expected: Expected) -> Run:
        return Run()

    def state(self, like: Mapping[str, Tensor]) -> State:
        return State()

    def ledger(self, calls: Batch) -> tuple[tuple[str, float], ...]:
        return ()

    def changes(self, *, names: bool = True) -> tuple[Change, ...] | None:
        return ()

    def watch(self, leaves: Sequence[Tensor], chip: str) -> Watched:
        return Watched()

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


class Inputs:
    """Numbered, so that a repeated one would be seen."""

    def __init__(self) -> None:
        self.next = 0

    def __call__(self, count: int) -> Given:
        self.next += count
        return Given([[torch.tensor(self.next - count + i)] for i in range(count)])


@pytest.mark.parametrize("call_us", [2.0, 50.0, 1000.0, 30_000.0])
def test_slope(call_us: float) -> None:
    (turns,) = time_turns([Scripted(call_us, baseline=True)], Inputs(), EXPECTED)
    assert turns.timing is not None
    assert turns.timing.median_us == pytest.approx(call_us, rel=0.05)
    assert turns.single_us == pytest.approx(call_us, rel=0.2, abs=20)
    assert turns.timing.resolution_us < 0.05 * call_us
    assert ("single" in turns.timing.method) == (call_us > 20_000)


def test_every_call_has_inputs_of_its_own() -> None:
    one, two = Scripted(50, baseline=True), Scripted(40)
    time_turns([one, two], Inputs(), EXPECTED, rounds=6)
    timed = one.seen[-sum(one.sizes[-17:]) :]
    assert len(set(timed)) == len(timed)
    assert set(one.seen) == set(two.seen), "both are timed on the same inputs"


def test_windows_alternate() -> None:
    order: list[str] = []

    class Noting(Scripted):
        def __init__(self, name: str) -> None:
            super().__init__(50, baseline=True)
            self.name = name

        def window(self, *args: Any, **keywords: Any) -> Window:
            order.append(self.name)
            return super().window(*args, **keywords)

    time_turns([Noting("a"), Noting("b")], Inputs(), EXPECTED, rounds=12)
    assert "".join(order[-8:]) in ("abbaabba", "baabbaab")  # the last rounds have one window of each


def test_kept_calls_come_with_their_inputs() -> None:
    (turns,) = time_turns([Scripted(50, baseline=True)], Inputs(), EXPECTED, keep=8)
    assert len(turns.kept) == 8 and len({int(kept.leaves[0]) for kept in turns.kept}) == 8
    for kept in turns.kept:
        assert kept.outputs[0] is not None and kept.outputs[0] == kept.leaves[0] + 1


def test_loitering_in_short_windows_gains_nothing() -> None:
    class Loiterer(Scripted):
        """Makes T(K) as long as T(2K), so that a plain slope would be nought."""

        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            window = super().window(calls, expected, **more)
            size = max([*self.sizes, len(calls)])
            return replace(window, forward_us=self.wake_us + size * self.call_us)

    honest, loiterer = time_turns([Scripted(100, baseline=True), Loiterer(100)], Inputs(), EXPECTED)
    assert honest.timing is not None and loiterer.timing is not None
    assert loiterer.timing.median_us > 0.95 * honest.timing.median_us


def test_late_work_is_charged() -> None:
    late = Scripted(10)
    late.copy_call_us = 95.0
    honest, found = time_turns([Scripted(100, baseline=True), late], Inputs(), EXPECTED)
    assert found.timing is not None and honest.charged_us == 0
    assert found.timing.median_us == pytest.approx(100, rel=0.1)
    assert found.charged_us == pytest.approx(90, rel=0.1)


@pytest.mark.parametrize(("call_us", "copied"), [(3000.0, 1), (60.0, 3), (2.0, 32)])
def test_the_shorter_the_calls_the_more_are_copied(call_us: float, copied: int) -> None:
    """So that the scatter of waking a child, some us, stays small beside them."""
    late, honest = Scripted(0.01 * call_us), Scripted(call_us, baseline=True)
    late.copy_call_us = 5.0 + call_us
    _, found = time_turns([honest, late], Inputs(), EXPECTED)
    assert found.timing is not None and found.copied >= copied and max(late.revealed) == found.copied
    assert found.timing.median_us == pytest.approx(1.01 * call_us, rel=0.15)


def test_who_is_late_in_half_of_the_windows_gains_nothing() -> None:
    class Sometimes(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            late = self.random.random() < 0.45
            self.call_us, self.copy_call_us = (1.0, 1004.0) if late else (1000.0, 5.0)
            return super().window(calls, expected, **more)

    found = [
        time_turns([Scripted(1000, baseline=True), Sometimes(1000)], Inputs(), EXPECTED, rounds=25)[1].timing
        for _ in range(5)
    ]
    assert sorted(timing.median_us for timing in found if timing)[2] > 900


def test_waiting_for_a_processor_is_charged_and_convicts_nobody() -> None:
    class Waiting(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            window = super().window(calls, expected, **more)
            return replace(window, copy_us=window.copy_us + 5000, copy_waited_us=5000.0)

    _, found = time_turns([Scripted(1000, baseline=True), Waiting(1000)], Inputs(), EXPECTED)
    assert found.charged_us > 4900 and found.late_us == 0 and found.disturbed
    late = Scripted(10)
    late.copy_call_us = 5005.0
    _, found = time_turns([Scripted(1000, baseline=True), late], Inputs(), EXPECTED)
    assert found.late_us > 4000 * found.copied


@pytest.mark.parametrize("first_us", [0.0, 300.0, 1000.0])
def test_what_a_first_call_costs_does_not_choose_how_many_are_made(first_us: float) -> None:
    class Cold(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            window = super().window(calls, expected, **more)
            return replace(window, forward_us=window.forward_us + first_us * bool(len(calls)))

    turns, _ = time_turns([Cold(15, noise=0.0), Cold(20, noise=0.0)], Inputs(), EXPECTED, window_us=300)
    assert turns.calls == pytest.approx(20, abs=1)


def test_an_honest_copy_costs_nothing() -> None:
    _, found = time_turns([Scripted(100, baseline=True), Scripted(90)], Inputs(), EXPECTED)
    assert found.charged_us < 0.5


def test_batched_calls_show_in_a_single_one() -> None:
    class Batcher(Scripted):
        """The first call of a window costs 200 us and the others 10."""

        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            return replace(super().window(calls, expected, **more), forward_us=100 + 200 + 10 * len(calls))

    _, found = time_turns([Scripted(100, baseline=True), Batcher(10)], Inputs(), EXPECTED)
    assert found.timing is not None and found.single_us > 10 * found.timing.median_us


def test_disturbed_windows_are_measured_again() -> None:
    class Disturbed(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            window = super().window(calls, expected, **more)
            if self.random.random() < 0.3:
                return replace(window, forward_us=window.forward_us * 3, waited_us=window.forward_us * 2)
            return window

    (turns,) = time_turns([Disturbed(100, baseline=True)], Inputs(), EXPECTED)
    assert turns.timing is not None and turns.timing.median_us == pytest.approx(100, rel=0.05)
    assert turns.discarded > 0 and turns.disturbed <= 3


def test_a_machine_never_quiet_ends_all_the_same() -> None:
    class Always(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            return replace(super().window(calls, expected, **more), own_us=1e6)

    (turns,) = time_turns([Always(100, baseline=True)], Inputs(), EXPECTED, rounds=5)
    assert turns.timing is not None and turns.disturbed == 5


def test_a_failure_stops_its_own_lane_alone() -> None:
    class Failing(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            if len(self.sizes) > 8:
                return Window(Failure(Status.RUNTIME_ERROR, "boom"))
            return super().window(calls, expected, **more)

    failing, honest = time_turns([Failing(100), Scripted(100, baseline=True)], Inputs(), EXPECTED)
    assert failing.failure is not None and failing.timing is None
    assert honest.timing is not None


def test_memory_bounds_the_calls() -> None:
    session = Scripted(1, baseline=True)
    (turns,) = time_turns([session], Inputs(), EXPECTED, timed=Timed(window_bytes=400))
    assert turns.timing is not None and max(session.sizes) <= 400 // 24


def test_slow_kernels_get_fewer_rounds() -> None:
    session = Scripted(2e6, baseline=True)
    (turns,) = time_turns([session], Inputs(), EXPECTED, budget_s=25)  # each round calls it once before
    assert turns.timing is not None and len(turns.timing.samples_us) == 6


def test_no_round_is_begun_when_the_time_is_up() -> None:
    class Slow(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            time.sleep(0.02)
            return replace(super().window(calls, expected, **more), own_us=1e6)

    began = time.monotonic()
    (turns,) = time_turns([Slow(100, baseline=True)], Inputs(), EXPECTED, rounds=500, budget_s=1.0, keep=2)
    assert time.monotonic() - began < 10
    assert turns.timing is not None and 5 <= len(turns.timing.samples_us) < 50 and turns.short_of_time
    assert turns.disturbed and len(turns.kept) == 2


def test_rounds_end_once_enough_is_known() -> None:
    (sure,) = time_turns([Scripted(100, baseline=True, noise=0.001)], Inputs(), EXPECTED, rounds=25, enough=0.01)
    (unsure,) = time_turns([Scripted(100, baseline=True, noise=0.1)], Inputs(), EXPECTED, rounds=25, enough=0.01)
    assert sure.timing is not None and len(sure.timing.samples_us) == 7 and not sure.short_of_time
    assert unsure.timing is not None and len(unsure.timing.samples_us) == 25


class Uneven(Scripted):
    """On a processor whose speed differs from round to round, for its neighbour as for itself."""

    def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
        window = super().window(calls, expected, **more)
        slower = 1 + 0.3 * random.Random(int(calls.leaves(0)[0]) if len(calls) else 0).random()
        return replace(window, forward_us=window.forward_us * slower)


def test_a_processor_that_changes_its_speed_for_all_keeps_no_ratio_from_being_known() -> None:
    sessions = [Uneven(100, baseline=True, noise=0.001), Uneven(80, noise=0.001)]
    turns = time_turns(sessions, Inputs(), EXPECTED, rounds=25, enough=0.01)
    assert all(item.timing is not None and len(item.timing.samples_us) == 7 for item in turns)


def test_any_round_may_be_looked_at() -> None:
    rounds = []
    for _ in range(300):
        session = Scripted(30_000, baseline=True)  # timed alone: one call a round, after one that is not timed
        (turns,) = time_turns([session], Inputs(), EXPECTED, rounds=8, keep=1)
        (kept,) = turns.kept
        rounds.append(session.seen[-16:][1::2].index(int(kept.leaves[0])))
    assert all(rounds.count(turn) > 15 for turn in range(8)), "each of 8 rounds about 37 times"


class Disturbed(Scripted):
    """Stands in line for a processor in the first window of every size of a round, as a child can bring about."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.batches: list[tuple[int, ...]] = []

    def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
        window = super().window(calls, expected, **more)
        mine = tuple(int(calls.leaves(call)[0]) for call in range(len(calls)))
        self.batches.append(mine if more.get("reveal") else ())
        stale = more.get("keep") and self.stale(len([one for one in self.batches if one]))
        results = tuple((leaf + 9,) for (leaf,) in window.results) if stale else window.results
        odd = len([one for one in self.batches if one]) % 2 == 1
        return replace(window, results=results, waited_us=1e6 if more.get("reveal") and odd else 0.0)

    def stale(self, number: int) -> bool:
        return number == 7


def test_a_repeated_window_has_new_inputs() -> None:
    """Who has itself disturbed would else know the inputs, and the right results, when it counts."""
    mine = Disturbed(50)
    time_turns([Scripted(50, baseline=True), mine], Inputs(), EXPECTED, rounds=8)
    timed = [batch for batch in mine.batches if batch]
    assert len(timed) == 16 and len({call for batch in timed for call in batch}) == sum(map(len, timed))


def test_a_stale_call_is_found_where_every_window_is_repeated() -> None:
    """The first try of each session is of the same calls, whatever became of it."""
    turns = time_turns([Scripted(50, baseline=True), Disturbed(50)], Inputs(), EXPECTED, rounds=8, keep=1)[1]
    assert any(kept.outputs[0] is not None and kept.outputs[0] != kept.leaves[0] + 1 for kept in turns.kept)


def test_a_result_that_the_next_call_overwrites_is_kept_of_slow_calls_too() -> None:
    class Overwriting(Scripted):
        def window(self, calls: Batch, expected: Expected, **more: Any) -> Window:
            window = super().window(calls, expected, **more)
            last = calls.leaves(len(calls) - 1)[0] + 1
            return replace(window, results=((last,),) * len(window.results))

    turns = time_turns([Scripted(30_000, baseline=True), Overwriting(30_000)], Inputs(), EXPECTED, keep=2)
    wrong = [kept for kept in turns[1].kept if kept.outputs[0] is None or not kept.outputs[0].equal(kept.leaves[0] + 1)]
    assert len(turns[0].kept) == 2 and len(turns[1].kept) == 3 and len(wrong) == 1


def test_what_is_known_of_a_baseline_is_not_measured_again() -> None:
    beside = Scripted(50, baseline=True)
    first, _ = time_turns([beside, Scripted(40)], Inputs(), EXPECTED, rounds=6)
    sizes, beside.sizes = beside.sizes, []
    _, again = time_turns([beside, Scripted(40)], Inputs(), EXPECTED, rounds=6, known=(first.known, None))
    assert again.timing is not None and again.timing.median_us == pytest.approx(40, rel=0.05)
    assert sizes.count(0) >= 5 and beside.sizes.count(0) == beside.sizes.count(1) == 1, "of each kind one is measured"
    assert len(beside.sizes) < len(sizes)


def test_what_is_known_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Scripted(50, baseline=True)
    first, _ = time_turns([beside, Scripted(40)], Inputs(), EXPECTED, rounds=6)
    monkeypatch.setattr(clock, "_REMEMBERED_S", 0.0)
    beside.sizes = []
    time_turns([beside, Scripted(40)], Inputs(), EXPECTED, rounds=6, known=(first.known, None))
    assert beside.sizes.count(0) == 5


SPIN = """
import time
from torch import nn
class Model(nn.Module):
    def __init__(self, us):
        super().__init__()
        self.us = us
    def forward(self, x):
        end = time.perf_counter_ns() + self.us * 1000
        while time.perf_counter_ns() < end: pass
        return x + 1
def get_init_inputs():
    return [300]
"""


@pytest.mark.timing
@pytest.mark.skipif(bool(sandbox.missing()), reason=sandbox.missing() or "")
def test_a_real_session() -> None:
    template = flatten({"args": [torch.zeros(1)], "kwargs": {}}, torch.is_tensor)[1]
    problem = Problem("spin", SPIN, Signature((TensorSpec("x", "float32", (4,)),), template))
    text = "from reference import Model\nclass ModelNew(Model): pass\n"
    sources = (SourceFile("model.py", text), SourceFile("reference.py", SPIN))
    candidate = Candidate("t", "torch@cpu", sources, baseline=True)
    with Session(problem, candidate, weights={}, broker=LocalBroker()) as session:
        assert session.start().failure is None
        (turns,) = time_turns([session], lambda count: Given([[torch.randn(4)] for _ in range(count)]), EXPECTED)
    assert turns.failure is None and turns.timing is not None
    assert turns.timing.median_us > 200  # of 300: other tests may be running
    assert len(turns.kept) == 3
