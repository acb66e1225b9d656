"""What a kernel does to the operators that run after it: in a model it is never alone.

Stock operators (a product, a sum of vectors, a fresh tensor that is filled) run in the child right after some calls of
the candidate, and, by turns, right after as many calls of a baseline in the baseline's child, by the judge's own clock.
A kernel that leaves threads busy, caches cold or an allocator in pieces makes them slower than the baseline does. The
baseline is timed twice in each round: only what goes beyond its distance from itself is told.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.judge.statistics import ratio
from kernelwright.judge.steps import Expected, Steps

if TYPE_CHECKING:
    from kernelwright.judge.fresh import Batch

_ROUNDS = 12
_TRIES = 4
"""A sample is the least of so many: what a kernel leaves behind is there each time, other work is not."""
_WARM = 2
"""Rounds that count for nothing: the first makes the operators' tensors."""
_CALLS = 2
_EDGE = 128
_VECTOR = 1 << 17
_FRESH = 1 << 18
TOLERATED = 0.1
"""Slower by less, nobody is told: other caches, other branches, other pages."""


@dataclass(frozen=True)
class Neighbours:
    """How long stock operators take right after the candidate, as a multiple of right after the baseline."""

    slower: float
    low: float
    """The interval's ends, 95 %."""
    high: float
    floor: float
    """How far from 1 the baseline was found from itself, at the far end of that interval."""
    us: float
    """After the baseline."""

    @property
    def seen(self) -> bool:
        """Whether it is slower beyond all of that."""
        return self.low > (1.0 + TOLERATED) * (1.0 + self.floor)


def measure(baseline: Steps, mine: Steps, inputs: "Callable[[int], Batch]", expected: Expected) -> Neighbours | None:
    """None where one of them has failed. Call it inside Gate.quiet()."""
    samples: list[list[float]] = [[], [], []]
    lanes = [(0, baseline), (1, baseline), (2, mine)]
    for turn in range(_WARM + _ROUNDS):
        given = inputs(_CALLS)
        # Each after the other's calls as often as after its own: a cold cache of the machine is shared.
        for place, session in lanes if turn % 2 else reversed(lanes):
            tries = [session.beside(given, expected) for _ in range(_TRIES if turn >= _WARM else 1)]
            if any(window.failure is not None for window in tries):
                return None
            if turn >= _WARM:
                samples[place].append(min(window.copy_us for window in tries))
    return found(*samples)


def found(first: Sequence[float], second: Sequence[float], mine: Sequence[float]) -> Neighbours:
    """From samples of the same rounds: after the baseline, twice, and after the candidate."""
    itself = ratio(second, first)
    floor = max(itself.high, 1.0 / itself.low) - 1.0
    both = [(one + two) / 2 for one, two in zip(first, second, strict=True)]
    slower = ratio(mine, both)
    return Neighbours(slower.value, slower.low, slower.high, floor, sorted(both)[len(both) // 2])


class Operators:
    """Runs in the child."""

    def __init__(self) -> None:
        import torch

        generator = torch.Generator().manual_seed(0)
        self._factor = torch.randn(_EDGE, _EDGE, generator=generator)
        self._vector = torch.randn(_VECTOR, generator=generator)

    def __call__(self) -> Any:
        import torch

        with torch.no_grad():
            product = torch.mm(self._factor, self._factor)
            total = self._vector + self._vector
            return product, total, torch.empty(_FRESH).fill_(1.0)
