"""Times sessions by turns, by the judge's own clock: slope over K and 2K calls, each on fresh inputs.

A window of n calls takes c + n t: t is what is wanted, c is waking the child, one round trip and what a first call
costs more than the next. A plain slope (T(2K) - T(K)) / K could be bent by a child that loiters in the short windows,
so c = 2 T(K) - T(2K) counts only between what an empty window of a trusted session takes and half a per cent of T(2K)
more. A sample is (T(2K) - c) / 2K.

After each window of 2K calls the whole results of a few of them, drawn at random, are asked for and copied, by a second
clock. What that takes beyond the same copying of a trusted session, a moment before or after, is work put off: its
share of each copied call is charged to every call.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from statistics import median, quantiles
from typing import TYPE_CHECKING

from kernelwright.judge.fresh import Batch
from kernelwright.judge.grounds import Timed
from kernelwright.judge.keeping import COMPARED, Keeping, Kept, Seen
from kernelwright.judge.steps import Expected, Failure, Steps, Window
from kernelwright.records import Timing

if TYPE_CHECKING:
    from torch import Tensor

_SETTLE_S = 0.006
"""libgomp's helpers spin this long after an operator of the judge itself, as in drawing inputs."""
_SETTLE_STEPS = 6
_SETTLED = 0.3
"""Of a step: a process that uses less of a processor is waiting."""
_LONG_US = 20_000.0
"""A call this long is timed alone, since c is below half a per cent of it, and after one that is not timed: other
sessions have had the caches meanwhile, and who runs a model runs it again and again."""
_LONGEST_WINDOW_US = 100_000.0
_MOST_CALLS = 512
_HEAVY_US = 100.0
"""Of calls this long a window holds few, and what waking a child scatters by would be much of it: ..."""
_HEAVY_WINDOW_US = 1500.0
"""... their windows are at least so long, which costs nothing but the calls themselves. No longer: the processor would
change its speed meanwhile, and not for both sessions alike."""
_FEWEST_ROUNDS = 5
_REPEATS = 3
"""How often a disturbed window is measured again, ..."""
_REPEATS_SHARE = 0.5
"""... until this part of the time is used up: a machine that is never quiet will not be so in the rest."""
_CHOOSING = 5
"""Windows, at most, from which the time of a call is guessed."""
_CHOSEN = 0.25
"""Of a window: so much longer must one of many calls be than one of a single call, to tell how many fill it."""
_GROWTH = 8
_SHORT = 4
"""Windows that a single call fills so many times over need no more calls."""
_EMPTIES = 5
_SHORTS = 3
"""In so many rounds an empty window, and one of K calls, is measured as well: they give c, which is the same in all."""
_SINGLES = 3
"""So many windows of a single call."""
_REMEMBERED_S = 60.0
"""How long what a session has shown counts: a machine changes."""
_MOST_OVERHEAD = 0.25
"""Of a window: on a machine so busy that an empty window seems to take more, times mean nothing anyway."""
_COLD = 0.005
"""Of a window: how much more its first call may cost than the others."""
_MOST_COPIED = 32
_PLAIN_WAKE_US = 60.0
_PLAIN_GBS = 1.0
"""Without a trusted session: what waking a child for copying, and the copying, may take."""
_SCATTERED_GBS = 0.2
"""Copying results is not slower than this, whatever order they lie in: a cache line, and the way to it in the page
tables, for every element."""
_WAIVED = 0.05
"""Of the time of a call: lateness below this is not charged where the copies' own scatter is as large."""


@dataclass(frozen=True)
class Known:
    """What timing a session has shown of it, and need not show again when it is timed beside the next one."""

    call_us: float
    """About what a call takes."""
    most: int
    """The most calls a window of it had: so much of its memory has been touched."""
    empty_us: tuple[float, ...]
    """The last windows without a call, ..."""
    single_us: tuple[float, ...]
    """... and those of one call."""
    at: float
    """When, by time.monotonic()."""


@dataclass(frozen=True)
class Turns:
    """What was measured of one session."""

    failure: Failure | None = None
    known: Known | None = None
    timing: Timing | None = None
    """Samples in the order of the rounds, so that sample i of two sessions were taken side by side."""
    calls: int = 0
    """K."""
    single_us: float = 0.0
    """Median of one call asked for alone, an empty window subtracted: far above the slope only if calls are batched."""
    overhead_us: float = 0.0
    """c."""
    charged_us: float = 0.0
    """What each sample contains for work put off."""
    late_us: float = 0.0
    """How much longer copying usually took, waiting not counted, than the slowest of a trusted session and than any
    order of the results in memory explains, ..."""
    copied: int = 0
    """... for the results of so many calls."""
    discarded: int = 0
    """Windows measured again because others used the processor."""
    disturbed: int = 0
    """Samples kept although others used the processor: the repeats were used up."""
    short_of_time: bool = False
    """Whether rounds were left out because the time was up."""
    kept: tuple[Kept, ...] = ()
    unwritten: int = 0
    """Timed calls that left an output unwritten."""
    changed: int = 0
    """Timed calls that changed an input."""
    guards: bool = True


@dataclass
class _Lane:
    """One session's measurements so far."""

    session: Steps
    call_us: float | None = None
    """What a call took when it was timed before."""
    most: int = 0
    """The most calls a window of it had so far."""
    waking: bool = True
    """Whether its empty windows are to tell what waking a child costs."""
    failure: Failure | None = None
    short_us: list[float] = field(default_factory=list)
    long_us: list[float] = field(default_factory=list)
    copy_us: list[float] = field(default_factory=list)
    ready_us: list[float] = field(default_factory=list)
    """The same without the time that child and judge stood in line for a processor. It convicts and is not charged: a
    child can make itself wait."""
    single_us: list[float] = field(default_factory=list)
    empty_us: list[float] = field(default_factory=list)
    discarded: int = 0
    disturbed: int = 0
    keeping: Keeping = field(default_factory=lambda: Keeping(0))
    unwritten: int = 0
    changed: int = 0
    guards: bool = True

    @classmethod
    def of(cls, session: Steps, keep: int, known: Known | None) -> "_Lane":
        """A lane that begins with what is known, if that is not too old."""
        lane = cls(session, keeping=Keeping(keep))
        if known is not None and time.monotonic() - known.at < _REMEMBERED_S:
            lane.call_us, lane.most = known.call_us, known.most
            lane.empty_us, lane.single_us = list(known.empty_us), list(known.single_us)
        return lane

    @property
    def trusted(self) -> bool:
        return self.session.candidate.baseline

    def wants(self, kind: str, turn: int) -> bool:
        """Whether it takes part in such windows of this round. However much is known, each kind is measured once: what
        waking costs changes with the machine."""
        if kind == "empty":
            return self.waking and (turn == 0 or len(self.empty_us) < _EMPTIES)
        if kind == "single":
            return turn == 0 or len(self.single_us) < _SINGLES
        return kind != "short" or turn < _SHORTS

    def note(self, kind: str, window: Window) -> None:
        self.most = max(self.most, window.calls)
        times = {"empty": self.empty_us, "single": self.single_us, "short": self.short_us, "long": self.long_us}
        if kind in times:
            times[kind].append(window.forward_us)
        if kind == "long":
            self.copy_us.append(window.copy_us)
            self.ready_us.append(window.copy_us - window.copy_waited_us)


def time_turns(
    sessions: Sequence[Steps],
    inputs: Callable[[int], Batch],
    expected: Expected,
    *,
    rounds: int = 11,
    keep: int = 3,
    window_us: float = 1000.0,
    timed: Timed = Timed(),
    budget_s: float = 30.0,
    enough: float = 0.0,
    fewest: int = 7,
    known: Sequence[Known | None] = (),
) -> tuple[Turns, ...]:
    """Times `sessions` (started) by turns and in alternating order, `rounds` samples each, fewer if slow.

    `inputs(n)` gives fresh inputs for n calls; all sessions have the same in a round. Sessions of baselines
    (`candidate.baseline`) are trusted: they tell what waking a child and copying its results cost. `keep` calls of each
    session, of different rounds, come back to be verified, and beside a trusted session also that one of all copied
    calls whose results lie farthest from the trusted one's. Call it inside Gate.quiet().

    `window_us`: about how long the shorter windows are, of light calls. `budget_s` is wall-clock time: when it is used
    up no round is begun beyond the fifth, however busy the machine. `enough`: after the `fewest` rounds they end once
    the ratio of each new session to each trusted one is known to this share (0.01: one per cent). `known`: what
    earlier timings of each session have shown; K is chosen without looking at these again. One at least is new.
    """
    began = time.monotonic()
    lanes = [_Lane.of(session, keep, item) for session, item in zip_longest(sessions, known)]
    if any(lane.trusted for lane in lanes):
        for lane in lanes:
            lane.waking = lane.trusted
    _settle()
    window_us = max(window_us, timed.least_window_us)
    most = _most_calls(inputs(1).like(), expected, timed.window_bytes)
    calls, per_call = _choose_calls(lanes, inputs, expected, most, window_us)
    call_us = sum(per_call)
    alone = call_us >= _LONG_US
    size = calls if alone else 2 * calls
    copied = _choose_copied(size, min(per_call, default=1.0), expected, timed)
    rounds = max(_FEWEST_ROUNDS, min(rounds, int(budget_s * 1e6 / max(call_us * calls * (2 if alone else 3), 1))))
    compared = min(keep, COMPARED)
    short_of_time = False
    for turn in range(rounds):
        spent_s = time.monotonic() - began
        short_of_time = turn >= _FEWEST_ROUNDS and spent_s > budget_s
        if short_of_time or (turn >= fewest and enough and _known(lanes, enough)):
            break
        repeats = _REPEATS if spent_s < _REPEATS_SHARE * budget_s else 0
        sizes = {"warm": calls, "long": calls} if alone else {"single": 1, "empty": 0, "short": calls, "long": size}
        kinds = [kind for kind in sizes if any(lane.wants(kind, turn) for lane in lanes)]
        spans = [(kind, inputs(sizes[kind])) for kind in kinds]
        order = list(enumerate(lanes))
        reveal = random.sample(range(size), copied)
        first: dict[int, Seen] = {}
        for place, lane in order if turn % 2 == 0 else reversed(order):
            # The first window after another session's finds colder caches: it is the short one as often as the long.
            for kind, given in spans if turn % 4 < 2 or alone else reversed(spans):
                if not lane.wants(kind, turn):
                    continue
                long = kind == "long"
                # The others serve by their medians alone, which a disturbed one hardly moves.
                wanted = reveal if long else []
                tries = _measure(lane, given, expected, wanted, compared, repeats if long else 0, inputs)
                if not tries:
                    break
                window, calls_seen = min(tries, key=lambda item: _disturbance_us(item[0]) * _disturbed(item[0]))
                lane.note(kind, window)
                lane.disturbed += long and _disturbed(window)
                if long and keep:
                    lane.keeping.add(turn, calls_seen)
                    first[place] = tries[0][1]
        beside = next((first[place] for place, lane in order if lane.trusted and place in first), None)
        for place, item in first.items():
            if beside is not None and not lanes[place].trusted:
                lanes[place].keeping.compare(item, beside)
    if alone and keep and most > 1:
        given = inputs(2)
        for lane in lanes:
            if not lane.trusted:
                _keep_first_of_two(lane, given, expected)
    return tuple(_conclude(lanes, expected, calls, copied, alone, short_of_time, timed.uneven_us))


def _keep_first_of_two(lane: _Lane, given: Batch, expected: Expected) -> None:
    """Where each window is one call nobody would see that a result is overwritten by the next call, as one is that
    lives in a buffer of the module: the first of two results that are held together is verified too."""
    for _, seen in _measure(lane, given, expected, [0], 1):
        lane.keeping.also(seen.keep(0))


def _settle() -> None:
    """Waits until the helper threads of this process have stopped spinning, if they are."""
    for _ in range(_SETTLE_STEPS):
        used = time.process_time()
        time.sleep(_SETTLE_S / _SETTLE_STEPS)
        if time.process_time() - used < _SETTLED * _SETTLE_S / _SETTLE_STEPS:
            return


def _known(lanes: "Sequence[_Lane]", enough: float) -> bool:
    """Whether the ratios to each trusted session, or the medians if there is none, are as sure as that, of windows that
    nobody disturbed. How sure, not which way: who stops when he likes what he sees finds what is not there."""
    living = [lane for lane in lanes if lane.failure is None]
    if any(lane.disturbed for lane in living):
        return False
    trusted = [lane for lane in living if lane.trusted]
    others = [lane for lane in living if not lane.trusted] or living
    series = [
        [mine / max(theirs, 0.001) for mine, theirs in zip(lane.long_us, beside.long_us, strict=True)]
        for lane in others
        for beside in trusted
        if beside is not lane
    ] or [lane.long_us for lane in others]
    return all(_uncertainty(samples) < enough * median(samples) for samples in series)


def _uncertainty(samples: Sequence[float]) -> float:
    """Half the width of a notch, the 95 % interval of a median (McGill, Tukey and Larsen 1978)."""
    low, _, high = quantiles(samples, n=4)
    return 1.57 * (high - low) / len(samples) ** 0.5


def _most_calls(leaves: "Sequence[Tensor]", expected: Expected, memory_bytes: int) -> int:
    """How many calls fit with their inputs and results."""
    inputs = sum(leaf.numel() * leaf.element_size() for leaf in leaves)
    return max(1, min(_MOST_CALLS, memory_bytes // max(inputs + expected.bytes, 1)))


def _choose_calls(
    lanes: list[_Lane], inputs: Callable[[int], Batch], expected: Expected, most: int, window_us: float
) -> tuple[int, list[float]]:
    """K, the same for all (so that all find their inputs equally warm), and about the time of a call of each session.
    K is enough for the fastest session, unless the slowest then takes too long.

    A first window of a child is slow: K is chosen from the growth of windows already met, not from their length. The
    first that grows has as many calls as would do for the sessions whose time is known."""
    new = [lane for lane in lanes if lane.call_us is None]
    known = [lane.call_us for lane in lanes if lane.call_us is not None]
    singles = _least(new, inputs, 1, expected)
    if not singles:
        return 1, []
    calls, per_call = 1, [*known, *singles.values()]
    likely = 2 * _filling(window_us, known) if known else 1
    while min(per_call) < _SHORT * window_us:
        grown = min(max(_GROWTH * calls, likely), max(1, most // 2), int(_LONGEST_WINDOW_US / max(per_call)))
        if grown <= calls:
            break
        calls, likely = grown, 1
        taken = _least(new, inputs, calls, expected)
        if not taken:
            return calls, []
        # At least a tenth of what a window's length says, should the single call have been disturbed.
        grown_us = [max((us - singles[lane]) / (calls - 1), us / calls / 10) for lane, us in taken.items()]
        per_call = [*known, *grown_us]
        if min(us - singles[lane] for lane, us in taken.items()) >= _CHOSEN * window_us:
            break
    wanted = _filling(window_us, per_call)
    calls = max(1, min(wanted, _GROWTH * calls, most // 2, int(_LONGEST_WINDOW_US / max(per_call))))
    if max(per_call) < _LONG_US:
        fresh = [lane for lane in lanes if lane.most < 2 * calls]
        _least(fresh, inputs, 2 * calls, expected, windows=1)  # which touch fresh memory
    return calls, per_call


def _filling(window_us: float, per_call: Sequence[float]) -> int:
    """How many calls of the fastest fill a window."""
    fastest_us = max(min(per_call), 0.01)
    if fastest_us >= _HEAVY_US:
        window_us = max(window_us, _HEAVY_WINDOW_US)
    return max(1, round(window_us / fastest_us))


def _least(
    lanes: list[_Lane], inputs: Callable[[int], Batch], calls: int, expected: Expected, windows: int = 2
) -> dict[int, float]:
    """The least time of some windows of each session that lives, by its place: the first of a size touches fresh
    memory."""
    taken = {}
    batches: list[Batch] = []  # the same for all sessions
    for place, lane in enumerate(lanes):
        found: list[Window] = []
        while lane.failure is None and (
            len(found) < windows or (windows > 1 and len(found) < _CHOOSING and _disturbed(found[-1]))
        ):
            if len(found) == len(batches):
                batches.append(inputs(calls))
            found.append(lane.session.window(batches[len(found)], expected))
            lane.failure = found[-1].failure
            lane.note("single" if calls == 1 else "", found[-1])
        if lane.failure is None:
            taken[place] = min(window.forward_us for window in found)
    return taken


def _choose_copied(calls: int, call_us: float, expected: Expected, timed: Timed) -> int:
    """Of how many calls of a window the results are copied: one, and where a call is so short that the scatter of
    waking a child drowns it, some more."""
    in_time, in_room = timed.copied_us / max(call_us, 0.01), timed.copied_bytes / max(expected.bytes, 1)
    wanted = min(in_time, in_room, _MOST_COPIED, calls)
    return max(1, int(wanted))


def _measure(
    lane: _Lane,
    given: Batch,
    expected: Expected,
    reveal: list[int],
    keep: int,
    repeats: int = 0,
    inputs: Callable[[int], Batch] | None = None,
) -> list[tuple[Window, Seen]]:
    """Windows of one session until nobody disturbed the last, `repeats` more at most, and what was seen of each; none
    once it has failed. A repeated one has new `inputs` and reveals other calls: those of the last the child knows."""
    tries: list[tuple[Window, Seen]] = []
    while lane.failure is None and len(tries) <= repeats:
        if tries:
            lane.discarded += 1
            given = inputs(len(given)) if inputs else given
            reveal = random.sample(range(len(given)), len(reveal))
        window = lane.session.window(given, expected, reveal=reveal, keep=keep)
        lane.failure = window.failure
        if lane.failure is not None:
            return []
        lane.unwritten += len(window.unwritten)
        lane.changed += len(window.changed)
        lane.guards &= window.guards
        tries.append((window, Seen(given, reveal, window.results)))
        if not _disturbed(window):
            break
    return tries


def _disturbance_us(window: Window) -> float:
    return window.waited_us + window.copy_waited_us + window.own_us


def _disturbed(window: Window) -> bool:
    """Whether the child stood in line for a processor, or this process computed while it should have waited."""
    waited = window.waited_us > 100 + 0.1 * window.forward_us or window.copy_waited_us > 100 + 0.1 * window.copy_us
    return waited or window.own_us > 500 + 0.1 * window.forward_us


def _conclude(
    lanes: list[_Lane], expected: Expected, calls: int, copied: int, alone: bool, short_of_time: bool, uneven_us: float
) -> Iterator[Turns]:
    living = [lane for lane in lanes if lane.failure is None]
    trusted = [lane for lane in living if lane.trusted]
    # Without a trusted session the smallest stands for them: nobody can make another's smaller.
    empties = [quantiles(lane.empty_us, n=4)[0] for lane in trusted or living if lane.empty_us]
    empty_us = 0.0 if not empties else max(empties) if trusted else min(empties)
    plain = _PLAIN_WAKE_US + copied * expected.bytes / (_PLAIN_GBS * 1e3)
    copies = [lane.copy_us for lane in trusted] or [[plain] * _FEWEST_ROUNDS]
    for lane in lanes:
        if lane.failure is not None:
            yield Turns(lane.failure)
            continue
        charged, late = (
            (0.0, 0.0)
            if lane.trusted
            else _lateness(lane, copies, calls if alone else 2 * calls, copied, expected.bytes, uneven_us)
        )
        turns = _turns(lane, empty_us, charged / copied, calls, copied, alone)
        yield replace(turns, late_us=late, copied=copied, short_of_time=short_of_time, known=_known_now(lane, turns))


def _known_now(lane: _Lane, turns: Turns) -> Known:
    call_us = turns.timing.median_us if turns.timing else 0.0
    empty_us, single_us = lane.empty_us[-_EMPTIES:], lane.single_us[-_SINGLES:]
    return Known(call_us, lane.most, tuple(empty_us), tuple(single_us), time.monotonic())


def _lateness(
    lane: _Lane, plain: list[list[float]], size: int, copied: int, size_bytes: int, uneven_us: float
) -> tuple[float, float]:
    """What copying took beyond the plain, and beyond what processes differ: by the medians, and without a doubt. In us
    for all copied calls together."""
    median_us = max(median(copies) for copies in plain)
    late = max(0.0, median(lane.copy_us) - median_us - uneven_us)
    scatter = _uncertainty(lane.copy_us) + max(_uncertainty(copies) for copies in plain)
    if late < scatter and late < _WAIVED * copied * median(lane.long_us) / size:
        late = 0.0
    slowest_us = max(max(copies) for copies in plain) + copied * size_bytes / (_SCATTERED_GBS * 1e3)
    return late, max(0.0, median(lane.ready_us) - slowest_us)


def _turns(lane: _Lane, empty_us: float, charged: float, calls: int, copied: int, alone: bool) -> Turns:
    size, overhead = (calls, 0.0) if alone else (2 * calls, empty_us)
    if lane.short_us:
        intercept = median(2 * short - long for short, long in zip(lane.short_us, lane.long_us, strict=False))
        overhead = min(max(intercept, empty_us), empty_us + _COLD * median(lane.long_us))
        overhead = min(overhead, _MOST_OVERHEAD * min(lane.long_us))
    samples = [max((us - overhead) / size, 0.0) + charged for us in lane.long_us]
    method = f"slope over {calls} and {2 * calls} calls by turns"
    if alone:
        method = "single calls by turns, each after one that is not timed"
    timing = Timing(
        samples_us=tuple(samples),
        method=f"{method}, fresh inputs, copying beyond the plain cost charged",
        resolution_us=_uncertainty(samples),
        copy_us=median(lane.copy_us) / copied,
    )
    return Turns(
        timing=timing,
        calls=calls,
        single_us=max(0.0, median(lane.single_us) - empty_us) if lane.single_us and not alone else median(samples),
        overhead_us=overhead,
        charged_us=charged,
        discarded=lane.discarded,
        disturbed=lane.disturbed,
        kept=lane.keeping.kept(),
        unwritten=lane.unwritten,
        changed=lane.changed,
        guards=lane.guards,
    )
