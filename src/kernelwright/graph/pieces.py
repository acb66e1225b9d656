"""A part of a graph as a computation of its own: capture, problem and weights."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.errors import CaptureError
from kernelwright.graph.captured import Capture, State
from kernelwright.graph.identity import identify
from kernelwright.graph.node import example_size, expression, is_contiguous, placeholders_of, tensor_of
from kernelwright.graph.printing import print_module
from kernelwright.records import Numerics, Problem, Range, Region, RegionInput, Signature, TensorSpec

aten = torch.ops.aten


@dataclass(frozen=True, eq=False)
class Piece:
    """Some calls of a whole graph.

    Its capture has a name of its own for everything (arguments in order of first use, weights p0, p1, ..., buffers
    b0, b1, ...), so that equal pieces are equal to the last byte of their text.
    """

    capture: Capture
    arguments: tuple[Node, ...]
    """For each argument the node of the whole graph whose value it is."""
    leaves: tuple[int | None, ...]
    """For each argument the leaf of the whole call that it is; None where it is computed."""
    open_sizes: Mapping[Any, tuple[int, int]]
    """For each symbol of an open size a leaf and a dimension of the whole call that have it."""
    weights: Mapping[str, str]
    """For each of its weights the dotted name in the whole module."""
    results: tuple[Node, ...]
    """The nodes of the whole graph whose values it returns, in order: alone, or as a tuple."""
    nodes: tuple[Node, ...]
    """Its calls in the whole graph."""

    @cached_property
    def region(self) -> Region:
        return identify(self.capture)

    @cached_property
    def source(self) -> str:
        """The text of a problem in the dialect: Model, get_init_inputs and get_inputs."""
        text = print_module(self.capture, entry="Model", base=None)
        drawn = ", ".join(_drawn(tensor_of(place)) for place in self._argument_places())
        return f"{text}\n\ndef get_init_inputs():\n    return []\n\n\ndef get_inputs():\n    return [{drawn}]\n"

    def problem(self, name: str, whole: Problem | None = None) -> Problem:
        """The piece as a problem. Of `whole` it takes numerics, and the bounds of arguments passed on to it."""
        specs = [
            self._spec(f"x{index}", tensor_of(place), leaf, whole)
            for index, (place, leaf) in enumerate(zip(self._argument_places(), self.leaves, strict=True))
        ]
        return Problem(
            name=name,
            source=self.source,
            signature=Signature(tuple(specs), self.capture.arguments),
            numerics=replace(whole.numerics, autocast=None) if whole else Numerics(),  # conversions are in the graph
            region=self.region,
            origin=f"{whole.origin}#{name}" if whole else name,
        )

    def state(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The piece's weights by its own names, out of the whole module's parameters and buffers by theirs."""
        return {name: whole[theirs] for name, theirs in self.weights.items()}

    def _argument_places(self) -> list[Node]:
        places = zip(placeholders_of(self.capture.graph.graph), self.capture.positions, strict=True)
        ordered = sorted((position, place) for place, position in places if position is not None)
        return [place for _, place in ordered]

    def _spec(self, name: str, fake: Tensor, leaf: int | None, whole: Problem | None) -> TensorSpec:
        given = whole.signature.tensors[leaf] if whole is not None and leaf is not None else None
        shape: list[int | Range] = []
        for size in fake.shape:
            symbol = expression(size)
            if isinstance(symbol, int) or whole is None:
                shape.append(example_size(size))
            else:
                carrier, dim = self.open_sizes[symbol]
                shape.append(whole.signature.tensors[carrier].shape[dim])
        stride = None if is_contiguous(fake) else tuple(example_size(step) for step in fake.stride())
        dtype = str(fake.dtype).removeprefix("torch.")
        low, high = (given.low, given.high) if given is not None else (None, None)
        return TensorSpec(name, dtype, tuple(shape), stride, low=low, high=high)


def cut_out(whole: Capture, nodes: Sequence[Node]) -> Piece:
    """The piece that consists of `nodes`, given in an order in which they can run."""
    borders = dict(zip(placeholders_of(whole.graph.graph), whole.inputs, strict=True))
    positions = dict(zip(placeholders_of(whole.graph.graph), whole.positions, strict=True))
    open_sizes: dict[Any, tuple[int, int]] = {}
    for place, position in positions.items():
        for dim, size in enumerate(tensor_of(place).shape):
            if position is not None and getattr(expression(size), "is_symbol", False):
                open_sizes.setdefault(expression(size), (position, dim))
    states = {state.name: state for state in whole.state}
    inside = set(nodes)
    graph = fx.Graph()
    copies: dict[Node, Node] = {}
    inputs: list[tuple[RegionInput, int | None]] = []
    arguments: list[Node] = []
    weights: dict[str, str] = {}
    state: list[State] = []
    constants: dict[str, Tensor] = {}

    def admitted(node: Node) -> Node:
        """The placeholder for a value from outside."""
        border = borders.get(node)
        if border is None or border.role == "argument":
            name = f"x{len(arguments)}"
            inputs.append((RegionInput("argument", str(len(arguments))), len(arguments)))
            arguments.append(node)
        elif border.role == "constant":
            name = f"#{len(constants)}"
            inputs.append((RegionInput("constant", name), None))
            constants[name] = whole.constants[border.name]
        else:
            parameter = border.role == "parameter"
            count = sum(item.parameter == parameter for item in state)
            name = f"{'p' if parameter else 'b'}{count}"
            inputs.append((RegionInput(border.role, name), None))
            weights[name] = border.name
            fake = states[border.name].value if border.name in states else tensor_of(node)
            state.append(State(name, fake, parameter, True, ""))
        place = graph.placeholder(name.replace("#", "constant"))
        place.meta["val"] = node.meta["val"]
        return place

    for node in nodes:
        for operand in node.all_input_nodes:
            if operand not in copies and operand not in inside and isinstance(operand.meta["val"], Tensor):
                copies[operand] = admitted(operand)
    for node in nodes:
        for operand in node.all_input_nodes:
            if operand not in copies:
                copies[operand] = _size(graph, operand, copies)
        copy = graph.node_copy(node, copies.__getitem__)
        copy.meta = {"val": node.meta["val"]}
        copies[node] = copy
    results = tuple(node for node in nodes if any(user not in inside for user in node.users))
    graph.output(tuple(copies[node] for node in results))
    capture = Capture(
        graph=fx.GraphModule(torch.nn.Module(), graph),
        inputs=tuple(border for border, _ in inputs),
        positions=tuple(position for _, position in inputs),
        constants=constants,
        output_template=json.dumps({"tensor": 0} if len(results) == 1 else {"tuple": _tensors(len(results))}),
        arguments=json.dumps({"dict": {"args": _tensors(len(arguments)), "kwargs": {"dict": {}}}}),
        parameter_names=tuple(f"x{index}" for index in range(len(arguments))),
        state=tuple(state),
        addresses={item.name: f"self.{item.name}" for item in state},
    )
    leaves = tuple(positions.get(node) for node in arguments)
    return Piece(capture, tuple(arguments), leaves, open_sizes, weights, results, tuple(nodes))


def _tensors(count: int) -> list[dict[str, int]]:
    """So many leaves, as a template writes them."""
    return [{"tensor": index} for index in range(count)]


def _size(graph: fx.Graph, node: Node, copies: dict[Node, Node]) -> Node:
    """A symbolic size of the whole graph, read from the piece's own inputs."""
    size = expression(node.meta["val"])
    if getattr(size, "is_symbol", False):
        for place in graph.find_nodes(op="placeholder"):
            for dim, other in enumerate(tensor_of(place).shape):
                if expression(other) == size:
                    read = graph.call_function(aten.sym_size.int, (place, dim))
                    read.meta["val"] = node.meta["val"]
                    return read
        raise CaptureError(f"the piece needs the open size {size}, which none of its inputs has")
    for operand in node.all_input_nodes:
        if operand not in copies:
            copies[operand] = _size(graph, operand, copies)
    copy = graph.node_copy(node, copies.__getitem__)
    copy.meta = {"val": node.meta["val"]}
    return copy


def _drawn(fake: Tensor) -> str:
    """An expression that draws values for an argument."""
    shape = ", ".join(str(example_size(size)) for size in fake.shape)
    if fake.dtype == torch.bool:
        return f"torch.rand({shape}) < 0.5"
    if not fake.dtype.is_floating_point:
        return f"torch.zeros({shape or '()'}, dtype={fake.dtype})"
    return f"torch.randn({shape or '()'}{'' if fake.dtype == torch.float32 else f', dtype={fake.dtype}'})"
