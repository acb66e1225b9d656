"""How windows of calls lie in an arena, and what is seen there once a window is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelwright.judge.arena import Block, Layout, Place
from kernelwright.judge.child import Series as Order
from kernelwright.judge.grounds import JudgeArena
from kernelwright.judge.steps import Expected
from kernelwright.records import Problem

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch

_AHEAD = 64
_AHEAD_SLOTS = 32
_AHEAD_RESULTS_BYTES = 1 << 19
"""No more is asked for at once, but of one call's results."""


@dataclass(frozen=True)
class Series:
    """Places for the inputs of some calls, each in memory of its own, and for the results of those that are asked for.
    The child keeps tensors there: windows that fit follow one another without a new order."""

    inputs: Block
    slots: Block
    expected: Expected
    kind: tuple[object, ...]
    """Of the leaves: dtypes, shapes, strides, offsets."""
    aliases: tuple[int | None, ...]
    size: int

    @classmethod
    def of(cls, problem: Problem, calls: "Batch", expected: Expected, slots: int, ahead_bytes: int = 0) -> "Series":
        """Room for `calls` and for the results of `slots` of them; for more of both where that much memory holds them,
        since a child that must make room for every window that grows takes longer than for the windows."""
        leaves = calls.like()
        aliases = tuple(spec.alias_of for spec in problem.signature.tensors)[: len(leaves)]
        aliases += (None,) * (len(leaves) - len(aliases))
        layout = Layout()

        def given(layout: Layout) -> tuple[Place, ...]:
            places: list[Place] = []
            for leaf, alias in zip(leaves, aliases, strict=True):
                places.append(layout.like(leaf) if alias is None else places[alias])
            return tuple(places)

        def results(layout: Layout) -> tuple[Place, ...]:
            forms = zip(expected.dtypes, expected.shapes, strict=True)
            return tuple(layout.contiguous(dtype, shape) for dtype, shape in forms)

        size = sum(leaf.numel() * leaf.element_size() for leaf in leaves) + expected.bytes
        room = min(_AHEAD, ahead_bytes // max(size, 1))
        inputs = layout.block(given, max(len(calls), room))
        results_room = min(room, _AHEAD_SLOTS, _AHEAD_RESULTS_BYTES // max(expected.bytes, 1))
        outputs = layout.block(results, max(slots, results_room))
        return cls(inputs, outputs, expected, kind(leaves), aliases, layout.size)

    def fits(self, calls: "Batch", expected: Expected, slots: int) -> bool:
        """Whether such a window can use it."""
        if len(calls) > self.inputs.count or slots > self.slots.count or expected != self.expected:
            return False
        return not len(calls) or kind(calls.like()) == self.kind

    @property
    def order(self) -> Order:
        """For the child."""
        return Order(self.inputs, self.slots, self.expected.template, self.expected.shapes, self.expected.dtypes)

    def write(self, arena: JudgeArena, calls: "Batch") -> None:
        """The inputs, while the child is stopped: whatever it does with them it does on the clock. No torch, no second
        thread: libgomp's helpers would still be spinning when the clock starts."""
        for leaf, alias in enumerate(self.aliases):
            if alias is None and len(calls):
                calls.write(leaf, arena.rows(self.inputs, leaf, len(calls)))

    def poison(self, arena: JudgeArena, count: int) -> None:
        """The slots that come next."""
        arena.poison(self.slots, count)

    def seize(self, arena: JudgeArena, count: int) -> None:
        """Keeps what the slots hold now, before anything is looked at."""
        arena.seize(place for slot in range(count) for place in self.slots.group(slot))

    def take(self, arena: JudgeArena, slot: int) -> "list[Tensor]":
        """Copies of a slot's results."""
        return [arena.take(place) for place in self.slots.group(slot)]

    def unwritten(self, arena: JudgeArena, count: int) -> list[tuple[int, int]]:
        """(slot, output) where poison is left."""
        return arena.unwritten(self.slots, count)

    def guarded(self, arena: JudgeArena, count: int) -> bool:
        """Whether the zones around the slots are intact."""
        return arena.guarded(self.slots, count)

    def changed(self, arena: JudgeArena, calls: "Batch", looked: Sequence[int]) -> list[tuple[int, int]]:
        """(call, leaf) of inputs that are no longer what was given, among the calls `looked` at."""
        return [
            (call, leaf)
            for call in looked
            for leaf, (place, tensor) in enumerate(zip(self.inputs.group(call), calls.leaves(call), strict=True))
            if not arena.same(place, tensor)
        ]


def kind(leaves: "list[Tensor]") -> tuple[object, ...]:
    """What two windows must share."""
    return tuple((leaf.dtype, leaf.shape, leaf.stride(), leaf.storage_offset()) for leaf in leaves)
