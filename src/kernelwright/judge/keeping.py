"""Which timed calls of a session are verified: some of any rounds, and of all that were copied the one whose results
lie farthest from a trusted session's for the same inputs. A candidate that is right in most calls and reuses an old
result in a few would else be found by luck alone.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.judge.distance import distance

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch

COMPARED = 3
"""Calls of a window whose results are compared with the trusted session's."""


@dataclass(frozen=True)
class Kept:
    """A timed call that is to be verified: the inputs it had and what it returned."""

    leaves: "tuple[Tensor, ...]"
    outputs: "tuple[Tensor | None, ...]"


@dataclass(frozen=True)
class Seen:
    """Calls of one window and what they returned."""

    given: "Batch"
    calls: Sequence[int]
    results: "Sequence[tuple[Tensor | None, ...]]"

    def keep(self, place: int) -> Kept:
        """One of them, with its inputs."""
        return Kept(tuple(self.given.leaves(self.calls[place])), self.results[place])


class Keeping:
    """Of one session. `wanted`: calls to be drawn from all rounds."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._drawn: dict[int, Kept] = {}
        self._farthest: tuple[float, Kept | None] = (0.0, None)
        self._more: list[Kept] = []

    def add(self, turn: int, seen: Seen) -> None:
        """Takes in what round `turn` is timed by."""
        slot = self._slot(turn)
        if slot is not None:
            self._drawn[slot] = seen.keep(0)

    def compare(self, seen: Seen, beside: Seen) -> None:
        """Looks at calls beside a trusted session's for the same inputs."""
        theirs = dict(zip(beside.calls, beside.results, strict=False))
        for place, (call, mine) in enumerate(zip(seen.calls, seen.results, strict=False)):
            far = distance(mine, theirs[call]) if call in theirs else 0.0
            if far > self._farthest[0]:
                self._farthest = far, seen.keep(place)

    def also(self, kept: Kept) -> None:
        """One more, whatever is drawn."""
        self._more.append(kept)

    def kept(self) -> tuple[Kept, ...]:
        """All that are to be verified."""
        farthest = self._farthest[1]
        return (*self._drawn.values(), *([farthest] if farthest else []), *self._more)

    def _slot(self, turn: int) -> int | None:
        """Which of the drawn this round's call becomes, if any: in the end they are calls of any different rounds,
        whenever the rounds end (reservoir sampling, Vitter 1985), so that no child can tell which are verified."""
        slot = turn if turn < self._wanted else random.randrange(turn + 1)
        return slot if slot < self._wanted else None
