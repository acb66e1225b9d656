"""Times sessions by turns, by the judge's own clock: slope over K and 2K calls, each on fresh inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.judge.session import Expected, Failure, Steps
from kernelwright.records import Timing

if TYPE_CHECKING:
    from torch import Tensor


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
    """K: a sample is (T(2K) - T(K)) / K, plus the copying beyond what is plain."""
    single_us: float = 0.0
    """Median of one call asked for alone, round trip subtracted: far below the slope only if calls are batched."""
    charged_us: float = 0.0
    """Median of what was added for copying beyond the plain cost."""
    discarded: int = 0
    """Windows measured again because others used the processor."""
    disturbed: int = 0
    """Samples kept although others used the processor: the repeats were used up."""
    kept: tuple[Kept, ...] = ()
    unwritten: int = 0
    """Timed calls that left an output unwritten."""
    changed: int = 0
    """Timed calls that changed an input."""
    guards: bool = True


def time_turns(
    sessions: Sequence[Steps],
    inputs: "Callable[[int], Sequence[Sequence[Tensor]]]",
    expected: Expected,
    *,
    rounds: int = 11,
    keep: int = 3,
    window_us: float = 2000.0,
    memory_bytes: int = 512 << 20,
) -> tuple[Turns, ...]:
    """Times `sessions` (started) by turns and in alternating order, `rounds` samples each.

    `inputs(n)` gives n fresh lists of leaves. The first sessions of baselines (`candidate.baseline`) tell what copying
    the results costs plainly. `keep` timed calls a session come back to be verified. Call it inside Gate.quiet().
    """
    raise NotImplementedError
