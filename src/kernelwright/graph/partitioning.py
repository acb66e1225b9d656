"""A graph too large for one problem, cut into pieces where it is narrow.

A waist is a place in the order of the calls where one activation is alone to be needed later, values of long life
aside (a mask that every layer reads). Between waists lie atoms, which are never cut unless one is larger than a piece
may be. Atoms that repeat with a period become equal pieces: the layers of a transformer are one Region each, and all
the same one, so that a kernel for one serves all. All decisions are taken on the canonical order of the calls, so that
both roads are cut alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch.fx.node import Node

from kernelwright.graph.captured import Capture
from kernelwright.graph.node import expression, output_of
from kernelwright.graph.pieces import Piece, cut_out


def partition(capture: Capture, limit: int) -> tuple[Piece, ...]:
    """The graph's calls in pieces of at most `limit` calls, in an order in which they can run.

    A graph that fits is one piece. Equal pieces have equal region digests and print as equal text.
    """
    return _Cutter(capture, limit).pieces()


@dataclass(frozen=True)
class _Atom:
    """Calls from `start` to `end` (excluded) of the order."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class _Cutter:
    def __init__(self, capture: Capture, limit: int) -> None:
        self.capture, self.limit = capture, max(1, limit)
        self.outputs = [node for node in output_of(capture.graph.graph).all_input_nodes if node.op == "call_function"]
        order = _post_order(self.outputs)
        last_uses = _last_uses(order)
        long_lived = [node for place, node in enumerate(order) if last_uses[node] - place > self.limit]
        self.order = _post_order([*long_lived, *self.outputs])
        self.last_use = _last_uses(self.order)
        self.places = {node: index for index, node in enumerate(self.order)}

    def pieces(self) -> tuple[Piece, ...]:
        fits = len(self.order) <= self.limit
        ranges = [(0, len(self.order))] if fits else self.merged(self.atoms())
        return tuple(self.piece(start, end) for start, end in ranges if end > start)

    def piece(self, start: int, end: int) -> Piece:
        return cut_out(self.capture, self.order[start:end])

    def atoms(self) -> list[_Atom]:
        """The order between waists; an atom larger than a piece may be is cut where fewest values are alive."""
        alive = self.alive()
        atoms, start = [], 0
        ends = [place + 1 for place, values in enumerate(alive) if self.is_waist(place, values)]
        for end in [*ends, len(self.order)]:
            while end - start > self.limit:
                places = [place for place in range(start, start + self.limit) if self.can_cut(alive[place])]
                if not places:
                    break
                cut = min(places, key=lambda place: (len(alive[place]), -place)) + 1
                atoms.append(_Atom(start, cut))
                start = cut
            if end > start:
                atoms.append(_Atom(start, end))
            start = end
        return atoms

    def alive(self) -> list[set[Node]]:
        """For each place the values made up to it that later calls need."""
        alive: set[Node] = set()
        found = []
        for place, node in enumerate(self.order):
            if self.last_use[node] > place:
                alive.add(node)
            alive -= {value for value in alive if self.last_use[value] <= place}
            found.append(set(alive))
        return found

    def is_waist(self, place: int, values: set[Node]) -> bool:
        short_lived = {value for value in values if self.last_use[value] - self.places[value] <= self.limit}
        return len(short_lived) <= 1 and self.can_cut(values)

    def can_cut(self, values: Iterable[Node]) -> bool:
        """Whether values can cross a border: tensors whose open sizes are single symbols."""
        for value in values:
            fake = value.meta["val"]
            if not isinstance(fake, torch.Tensor):
                return False
            sizes = [expression(size) for size in fake.shape]
            if not all(isinstance(size, int) or getattr(size, "is_symbol", False) for size in sizes):
                return False
        return True

    def merged(self, atoms: Sequence[_Atom]) -> list[tuple[int, int]]:
        """Ranges of calls for pieces: one for each repetition of the period, the rest filled up to the limit."""
        if not atoms:
            return []
        names = [self.piece(atom.start, atom.end).region.digest for atom in atoms]
        run = _longest_run(names, [atom.size for atom in atoms])
        if run is None:
            return self.filled(atoms)
        first, period, times = run
        ranges = self.merged(atoms[:first])
        for repetition in range(times):
            begin = first + repetition * period
            ranges += self.filled(atoms[begin : begin + period])
        return ranges + self.merged(atoms[first + times * period :])

    def filled(self, atoms: Sequence[_Atom]) -> list[tuple[int, int]]:
        ranges: list[tuple[int, int]] = []
        for atom in atoms:
            if ranges and atom.end - ranges[-1][0] <= self.limit:
                ranges[-1] = (ranges[-1][0], atom.end)
            else:
                ranges.append((atom.start, atom.end))
        return ranges


def _post_order(roots: Sequence[Node]) -> list[Node]:
    """The calls that the roots need, each after its operands, operands in the order of the arguments. Sizes aside."""
    order: list[Node] = []
    done: set[Node] = set()
    pending = list(reversed(roots))
    while pending:
        node = pending[-1]
        if node in done:
            pending.pop()
            continue
        missing = [operand for operand in node.all_input_nodes if operand not in done and _is_step(operand)]
        if missing:
            pending += reversed(missing)
            continue
        pending.pop()
        done.add(node)
        order.append(node)
    return order


def _is_step(node: Node) -> bool:
    """Whether the node is a call that a piece holds: sizes are read anew wherever they are needed."""
    return node.op == "call_function" and not isinstance(node.meta["val"], (torch.SymInt, torch.SymFloat, int))


def _last_uses(order: Sequence[Node]) -> dict[Node, int]:
    """For each call the place of the last one that needs it; its own where only the output does."""
    places = {node: index for index, node in enumerate(order)}
    return {
        node: max([places[user] for user in node.users if user in places], default=index)
        for node, index in places.items()
    }


def _longest_run(names: Sequence[str], sizes: Sequence[int]) -> tuple[int, int, int] | None:
    """Start, period and repetitions (two at least) of the run that covers most calls, of the shortest period."""
    best: tuple[int, int, tuple[int, int, int]] | None = None
    for period in range(1, len(names) // 2 + 1):
        length = 0
        for place in range(len(names) - period, -1, -1):
            length = length + 1 if place + period < len(names) and names[place] == names[place + period] else 0
            times = length // period + 1
            covered = sum(sizes[place : place + times * period])
            if times > 1 and (best is None or (covered, -period) > best[:2]):
                best = covered, -period, (place, period, times)
    return best and best[2]
