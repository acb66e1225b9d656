"""Times sessions by turns, by the judge's own clock: slope over K and 2K calls, each on fresh inputs.

A window of n calls takes c + n t: t is what is wanted, c is waking the child, one round trip and what a first call
costs more than the next. A plain slope (T(2K) - T(K)) / K could be bent by a child that loiters in the short windows,
so c = 2 T(K) - T(2K) counts only between what an empty window of a trusted session takes and half a per cent of T(2K)
more. A sample is (T(2K) - c) / 2K.
"""

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import median, quantiles
from typing import TYPE_CHECKING

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
_FEWEST_ROUNDS = 5
_FEWEST_TIGHT_ROUNDS = 7
"""Before that many, samples that agree may agree by chance."""
_REPEATS = 3
"""How often a disturbed window is measured again, ..."""
_REPEATS_SHARE = 0.5
"""... until this part of the time is used up: a machine that is never quiet will not be so in the rest."""
_CHOOSING = 5
"""Windows, at most, from which the time of a call is guessed."""
_EXTRAS = 5
"""In so many rounds an empty window and one of a single call are measured as well."""
_MOST_OVERHEAD = 0.25
"""Of a window: on a machine so busy that an empty window seems to take more, times mean nothing anyway."""
_COLD = 0.005
"""Of a window: how much more its first call may cost than the others."""
_PLAIN_COPY_US = 30.0
"""Without a trusted session: what a probe of one output may cost, and half of what waking the child may."""


@dataclass(frozen=True)
class Kept:
    """A timed call that was chosen at random to be verified: the inputs it had and what it returned."""

    leaves: "tuple[Tensor, ...]"
    outputs: "tuple[Tensor | None, ...]"


@dataclass(frozen=True)
class Turns:
    """What was measured of one session."""

    failure: Failure | None = None
    timing: Timing | None = None
    """Samples in the order of the rounds, so that sample i of two sessions were taken side by side."""
    calls: int = 0
    """K."""
    single_us: float = 0.0
    """Median of one call asked for alone, an empty window subtracted: far above the slope only if calls are batched."""
    overhead_us: float = 0.0
    """c."""
    charged_us: float = 0.0
    late_us: float = 0.0
    """What copying parts of a window's results took beyond the plain copy, all probed calls together."""
    """What each sample contains for work put off: what copying the probed parts cost beyond the plain, per call."""
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
    failure: Failure | None = None
    short_us: list[float] = field(default_factory=list)
    long_us: list[float] = field(default_factory=list)
    copy_us: list[float] = field(default_factory=list)
    probed: int = 1
    single_us: list[float] = field(default_factory=list)
    empty_us: list[float] = field(default_factory=list)
    discarded: int = 0
    disturbed: int = 0
    kept: dict[int, Kept] = field(default_factory=dict)
    """By slot; see _Sampling."""
    unwritten: int = 0
    changed: int = 0
    guards: bool = True

    @property
    def trusted(self) -> bool:
        return self.session.candidate.baseline

    def note(self, kind: str, window: Window) -> None:
        times = {"empty": self.empty_us, "single": self.single_us, "short": self.short_us, "long": self.long_us}
        if kind in times:
            times[kind].append(window.forward_us)
        if kind == "long":
            self.copy_us.append(window.copy_us)
            self.probed = max(window.probed, 1)


def time_turns(
    sessions: Sequence[Steps],
    inputs: "Callable[[int], Sequence[Sequence[Tensor]]]",
    expected: Expected,
    *,
    rounds: int = 11,
    keep: int = 3,
    window_us: float = 2000.0,
    memory_bytes: int = 512 << 20,
    budget_s: float = 30.0,
    enough: float = 0.0,
) -> tuple[Turns, ...]:
    """Times `sessions` (started) by turns and in alternating order, `rounds` samples each, fewer if slow.

    `inputs(n)` gives n fresh lists of leaves; all sessions have the same in a round. Sessions of baselines
    (`candidate.baseline`) are trusted: they tell what waking a child and copying its results cost. `keep` calls of each
    session come back to be verified. Call it inside Gate.quiet().

    `budget_s` is wall-clock time: when it is used up no round is begun beyond the fifth, however busy the machine.
    `enough`: rounds end early once each median is known to this share of itself (0.01: one per cent).
    """
    began = time.monotonic()
    lanes = [_Lane(session) for session in sessions]
    most = _most_calls(inputs(1)[0], expected, memory_bytes)
    calls, call_us = _choose_calls(lanes, inputs, expected, most, window_us)
    alone = call_us >= _LONG_US
    rounds = max(_FEWEST_ROUNDS, min(rounds, int(budget_s * 1e6 / max(call_us * calls * (2 if alone else 3), 1))))
    short_of_time = False
    for turn in range(rounds):
        spent_s = time.monotonic() - began
        short_of_time = turn >= _FEWEST_ROUNDS and spent_s > budget_s
        if short_of_time or (turn >= _FEWEST_TIGHT_ROUNDS and enough and _known(lanes, enough)):
            break
        repeats = _REPEATS if spent_s < _REPEATS_SHARE * budget_s else 0
        sizes = {"warm": calls, "long": calls} if alone else {"short": calls, "long": 2 * calls}
        if turn < _EXTRAS and not alone:
            sizes = {"empty": 0, "single": 1, **sizes}
        fresh = iter(inputs(sum(sizes.values())))
        spans = [(kind, list(islice(fresh, size))) for kind, size in sizes.items()]
        _settle()
        order = list(enumerate(lanes))
        for _, lane in order if turn % 2 == 0 else reversed(order):
            # The first window after another session's finds colder caches: it is the short one as often as the long.
            for kind, given in spans if turn % 4 < 2 or alone else reversed(spans):
                slots = _slots(keep, turn, lane.kept)[: len(given)] if kind == "long" else []
                chosen = random.sample(range(len(given)), len(slots))
                # The others serve by their medians alone, which a disturbed one hardly moves.
                window = _measure(lane, given, expected, tuple(chosen), repeats if kind == "long" else 0)
                if window is None:
                    break
                lane.note(kind, window)
                lane.disturbed += kind == "long" and _disturbed(window)
                for slot, index in zip(slots, chosen, strict=True):
                    outputs = next(found for call, found in window.outputs if call == index)
                    lane.kept[slot] = Kept(tuple(given[index]), outputs)
    if alone and keep and most > 1:
        given = inputs(2)
        for lane in lanes:
            if not lane.trusted:
                _keep_first_of_two(lane, given, expected, keep)
    return tuple(_conclude(lanes, expected, calls, alone, short_of_time))


def _slots(keep: int, turn: int, taken: Collection[int]) -> list[int]:
    """Which of the `keep` slots take a call of round `turn`, in random order: in the end each holds one of any round,
    whenever the rounds end (reservoir sampling, Vitter 1985), so that no child can tell which round is looked at."""
    slots = [slot for slot in range(keep) if slot not in taken or random.random() * (turn + 1) < 1.0]
    random.shuffle(slots)
    return slots


def _keep_first_of_two(lane: _Lane, given: "Sequence[Sequence[Tensor]]", expected: Expected, slot: int) -> None:
    """Where each window is one call nobody would see that a result is overwritten by the next call, as one is that
    lives in a buffer of the module: the first of two results that are held together is verified too."""
    window = _measure(lane, given, expected, (0,), 0)
    if window is not None:
        lane.kept[slot] = Kept(tuple(given[0]), next(found for call, found in window.outputs if call == 0))


def _settle() -> None:
    """Waits until the helper threads of this process have stopped spinning, if they are."""
    for _ in range(_SETTLE_STEPS):
        used = time.process_time()
        time.sleep(_SETTLE_S / _SETTLE_STEPS)
        if time.process_time() - used < _SETTLED * _SETTLE_S / _SETTLE_STEPS:
            return


def _known(lanes: "Sequence[_Lane]", enough: float) -> bool:
    """Whether all that live have medians as sure as that, of windows nobody disturbed."""
    return all(
        lane.failure is not None or (not lane.disturbed and _uncertainty(lane.long_us) < enough * median(lane.long_us))
        for lane in lanes
    )


def _uncertainty(samples: Sequence[float]) -> float:
    """Half the width of a notch, the 95 % interval of a median (McGill, Tukey and Larsen 1978)."""
    low, _, high = quantiles(samples, n=4)
    return 1.57 * (high - low) / len(samples) ** 0.5


def _most_calls(leaves: "Sequence[Tensor]", expected: Expected, memory_bytes: int) -> int:
    """How many calls fit with their inputs and results."""
    inputs = sum(leaf.numel() * leaf.element_size() for leaf in leaves)
    return max(1, min(_MOST_CALLS, memory_bytes // max(inputs + expected.bytes, 1)))


def _choose_calls(
    lanes: list[_Lane],
    inputs: "Callable[[int], Sequence[Sequence[Tensor]]]",
    expected: Expected,
    most: int,
    window_us: float,
) -> tuple[int, float]:
    """K, the same for all (so that all find their inputs equally warm), and the time of a round's single call, all
    sessions together. K is enough for the fastest session, unless the slowest then takes too long."""
    calls = 1
    while True:
        given = inputs(calls)
        _settle()
        taken = []
        for lane in lanes:
            if lane.failure is None:
                windows: list[Window] = []
                # Twice at the least: the first window of a size touches fresh memory.
                while len(windows) < 2 or (len(windows) < _CHOOSING and _disturbed(windows[-1])):
                    windows.append(lane.session.window(given, expected))
                    if windows[-1].failure:
                        break
                failed = windows[-1].failure
                lane.failure = failed
                if failed is None:
                    taken.append(min(window.forward_us for window in windows))
        if not taken:
            return calls, 0.0
        per_call = [us / calls for us in taken]
        grown = calls * max(2, min(8, int(window_us / max(min(taken), 1.0)) + 1))
        if min(taken) >= window_us or 2 * calls >= most or max(per_call) * grown > _LONGEST_WINDOW_US:
            return calls, sum(per_call)
        calls = min(grown, max(1, most // 2))


def _measure(
    lane: _Lane, given: "Sequence[Sequence[Tensor]]", expected: Expected, keep: tuple[int, ...], repeats: int
) -> Window | None:
    """A window of one session that nobody disturbed, else the least disturbed of a few; None once it has failed."""
    if lane.failure is not None:
        return None
    best: Window | None = None
    for attempt in range(repeats + 1):
        window = lane.session.window(given, expected, keep=keep)
        if window.failure is not None:
            lane.failure = window.failure
            return None
        lane.unwritten += len(window.unwritten)
        lane.changed += len(window.changed)
        lane.guards &= window.guards
        if not _disturbed(window):
            return window
        if best is None or window.waited_us + window.own_us < best.waited_us + best.own_us:
            best = window
        if attempt < repeats:
            lane.discarded += 1
    return best


def _disturbed(window: Window) -> bool:
    """Whether the child stood in line for a processor, or this process computed while it should have waited."""
    return window.waited_us > 100 + 0.1 * window.forward_us or window.own_us > 500 + 0.1 * window.forward_us


def _conclude(lanes: list[_Lane], expected: Expected, calls: int, alone: bool, short_of_time: bool) -> Iterator[Turns]:
    living = [lane for lane in lanes if lane.failure is None]
    trusted = [lane for lane in living if lane.trusted]
    # Without a trusted session the smallest stands for them: nobody can make another's smaller.
    empties = [quantiles(lane.empty_us, n=4)[0] for lane in trusted or living if lane.empty_us]
    empty_us = 0.0 if not empties else max(empties) if trusted else min(empties)
    if trusted:
        plain_us = max(quantiles(lane.copy_us, n=4)[2] for lane in trusted)
    else:
        plain_us = _PLAIN_COPY_US * (2 + max((lane.probed for lane in living), default=1) * len(expected.shapes))
    for lane in lanes:
        turns = _turns(lane, empty_us, plain_us, calls, alone)
        yield replace(turns, short_of_time=short_of_time) if turns.timing else turns


def _turns(lane: _Lane, empty_us: float, plain_us: float, calls: int, alone: bool) -> Turns:
    if lane.failure is not None:
        return Turns(lane.failure)
    size, overhead = (calls, 0.0) if alone else (2 * calls, empty_us)
    if lane.short_us:
        intercept = median(2 * short - long for short, long in zip(lane.short_us, lane.long_us, strict=True))
        overhead = min(max(intercept, empty_us), empty_us + _COLD * median(lane.long_us))
        overhead = min(overhead, _MOST_OVERHEAD * min(lane.long_us))
    late = 0.0 if lane.trusted else max(0.0, median(lane.copy_us) - plain_us)
    charged = late / lane.probed
    samples = [max((us - overhead) / size, 0.0) + charged for us in lane.long_us]
    method = f"slope over {calls} and {2 * calls} calls by turns"
    if alone:
        method = "single calls by turns, each after one that is not timed"
    timing = Timing(
        samples_us=tuple(samples),
        method=f"{method}, fresh inputs, copying beyond the plain cost charged",
        resolution_us=_uncertainty(samples),
        copy_us=median(lane.copy_us) / lane.probed,
    )
    return Turns(
        timing=timing,
        calls=calls,
        single_us=max(0.0, median(lane.single_us) - empty_us) if lane.single_us else median(samples),
        overhead_us=overhead,
        charged_us=charged,
        late_us=late,
        discarded=lane.discarded,
        disturbed=lane.disturbed,
        kept=tuple(lane.kept.values()),
        unwritten=lane.unwritten,
        changed=lane.changed,
        guards=lane.guards,
    )
