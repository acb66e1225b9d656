"""A graph that is not proven as a whole, run in steps: proven kernels for its pieces, Inductor for what is between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.archive import Archive
from kernelwright.deploy.served import Served
from kernelwright.graph import Capture, Piece, partition
from kernelwright.graph.node import output_of, placeholders_of, tensor_of
from kernelwright.graph.pieces import cut_out

Flat = Callable[..., Sequence[Tensor]]
Find = Callable[[Capture], tuple[Served, ...]]
Compile = Callable[[fx.GraphModule, Sequence[Tensor]], Flat]

MOST_CUTS = 3
"""Sizes of pieces that are tried, the largest of what is proven first. A cut takes some tenths of a second."""


@dataclass(frozen=True)
class _Step:
    """A part of the graph: how it is run, where its inputs come from, and which values it makes."""

    run: Flat
    inputs: tuple[Node | Tensor, ...]
    results: tuple[Node, ...]


class Mixed:
    """Takes the capture's placeholders in their order and gives its results in theirs, as Served does."""

    def __init__(self, capture: Capture, parts: Sequence[tuple[Piece, Served | None]], compiled: Compile) -> None:
        self.title = ", ".join(dict.fromkeys(served.title for _, served in parts if served is not None))
        self._places = placeholders_of(capture.graph.graph)
        self._steps = tuple(_step(capture, piece, served, compiled) for piece, served in _joined(capture, parts))
        outputs: Any = output_of(capture.graph.graph).args[0]
        self._outputs: tuple[Node, ...] = tuple(outputs[: capture.result_count])

    open = False

    def applies(self, values: Sequence[Tensor]) -> bool:
        """Always: only graphs of fixed sizes are cut."""
        return True

    def __call__(self, *values: Tensor) -> list[Tensor]:
        known: dict[Node, Tensor] = dict(zip(self._places, values, strict=True))
        for step in self._steps:
            made = step.run(*[known[given] if isinstance(given, Node) else given for given in step.inputs])
            known.update(zip(step.results, made, strict=True))
        return [known[node] for node in self._outputs]


def mixed(archive: Archive, capture: Capture, device: str, find: Find, compiled: Compile) -> Mixed | None:
    """The graph with as many of its calls as possible in proven hands; None where none of its pieces is proven."""
    whole = _calls_of(capture)
    proven = {problem.region.operators for problem, _ in archive.proven(device) if problem.region}
    best: list[tuple[Piece, Served | None]] = []
    covered = 0
    for limit in sorted((size for size in proven if size < whole), reverse=True)[:MOST_CUTS]:
        answers: dict[str, tuple[Served, ...]] = {}
        parts: list[tuple[Piece, Served | None]] = []
        for piece in partition(capture, limit):
            # A kernel is bound to one piece's weights, so equal pieces are each found; the misses only once.
            name = piece.region.digest
            if answers.get(name) != ():
                answers[name] = find(piece.capture)
            parts.append((piece, answers[name][0] if answers[name] else None))
        count = sum(len(piece.nodes) for piece, served in parts if served is not None)
        if count > covered:
            best, covered = parts, count
    return Mixed(capture, best, compiled) if best else None


def _calls_of(capture: Capture) -> int:
    return sum(node.op == "call_function" for node in capture.graph.graph.nodes)


def _joined(capture: Capture, parts: Sequence[tuple[Piece, Served | None]]) -> list[tuple[Piece, Served | None]]:
    """The parts with neighbours that nobody serves made one, so that Inductor sees as much at once as it can."""
    found: list[tuple[Piece, Served | None]] = []
    for piece, served in parts:
        if served is None and found and found[-1][1] is None:
            found[-1] = (cut_out(capture, [*found[-1][0].nodes, *piece.nodes]), None)
        else:
            found.append((piece, served))
    return found


def _step(capture: Capture, piece: Piece, served: Served | None, compiled: Compile) -> _Step:
    borders = {
        border.name: place for place, border in zip(placeholders_of(capture.graph.graph), capture.inputs, strict=True)
    }
    inputs: list[Node | Tensor] = []
    for border in piece.capture.inputs:
        if border.role == "argument":
            inputs.append(piece.arguments[int(border.name)])
        elif border.role == "constant":
            inputs.append(piece.capture.constants[border.name])
        else:
            inputs.append(borders[piece.weights[border.name]])
    examples = [tensor_of(place) for place in placeholders_of(piece.capture.graph.graph)]
    run = served if served is not None else compiled(piece.capture.graph, examples)
    return _Step(run, tuple(inputs), piece.results)
