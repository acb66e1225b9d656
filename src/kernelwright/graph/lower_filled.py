"""Operators that become kernels of hand-tuned templates: which nodes, and what their calls pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.graph.algebra.weights import is_prepared
from kernelwright.graph.lower_emit import Source
from kernelwright.graph.lower_rule import SCALARS
from kernelwright.graph.node import expression, is_contiguous
from kernelwright.loops import Convolution, Filled, ScalarType, Size


@dataclass(frozen=True)
class Packing:
    """Weights that a kernel reads in an order of its own: the kernel that packs them, without a name."""

    kernel: Filled
    weight: Node
    elements: int
    """Of the packed weights, float32."""


@dataclass(frozen=True)
class FilledCall:
    """A kernel without a name, and what its call passes after the results."""

    kernel: Filled | Convolution
    sources: tuple[Source, ...]
    sizes: tuple[Any, ...]
    """SymInts."""
    results: tuple[Node, ...]
    """The nodes whose values the kernel writes, in its order: all that the graph needs of what it covers."""
    covers: tuple[Node, ...]
    """The operators that it does, first the one at whose place the call stands."""
    packing: Packing | None = None
    """What it reads after `sources`."""


Maker = Callable[[Node], FilledCall | None]


def filled_calls(graph: fx.Graph, makers: Mapping[Any, Maker]) -> dict[Node, FilledCall]:
    """The calls by the node at whose place each stands. Of two that cover a node the later one is made."""
    found: dict[Node, FilledCall] = {}
    covered: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        make = makers.get(node.target)
        if make is None or node.op != "call_function" or node in covered or is_prepared(node):
            continue
        call = make(node)
        if call is not None and covered.isdisjoint(call.covers):
            found[call.covers[0]] = call
            covered |= set(call.covers)
    return found


def call_of(
    template: str,
    call: str,
    node: Node,
    results: Sequence[Node],
    operands: Sequence[Node],
    sizes: Sequence[Any],
    *,
    covers: Sequence[Node] = (),
) -> FilledCall | None:
    """A call on row-major operands that gives row-major results; None where the graph has the results otherwise."""
    values = [result.meta.get("val") for result in results]
    if any(not isinstance(value, Tensor) or not is_contiguous(value) for value in values):
        return None
    inputs, outputs = [scalar_of(operand) for operand in operands], [scalar_of(result) for result in results]
    if None in inputs or None in outputs:
        return None
    symbols: dict[Any, Any] = {}
    written: list[Size] = []
    for size in sizes:
        value = expression(size)
        if isinstance(value, int):
            written.append(value)
        else:
            symbols.setdefault(value, size)
            written.append(f"n{list(symbols).index(value)}")
    kernel = Filled(
        template,
        call,
        tuple(type for type in outputs if type),
        tuple(type for type in inputs if type),
        tuple(written),
        note=f"{call.partition('<')[0].replace('::', ': ')} {' x '.join(map(str, values[0].shape))}",  # type: ignore[union-attr]
    )
    sources = tuple(Source(operand, None) for operand in operands)
    return FilledCall(kernel, sources, tuple(symbols.values()), tuple(results), (node, *covers))


def scalar_of(node: Node) -> ScalarType | None:
    """The type of the tensor's scalars, if kernels know it and it lies in ordinary memory."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.device.type != "cpu":
        return None
    return SCALARS.get(value.dtype)


def only_result(node: Node, place: int = 0) -> Node | None:
    """The getitem of an operator with several results, where that is all that is used of it."""
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].args[1:] == (place,) else None


def product(sizes: Sequence[Any]) -> Any:
    """The product of sizes, 1 of none."""
    total: Any = 1
    for size in sizes:
        total = total * size
    return total
