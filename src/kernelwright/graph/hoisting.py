"""Which calls depend on nothing that a caller or a training step could change, so that once is enough."""

import math
from collections.abc import Collection

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.fx.node import Node, map_aggregate

from kernelwright.graph.node import shown_outputs

_KEPT_BYTES = 1 << 26
"""The largest value that a module keeps for good instead of making it in every call."""


def constant_calls(graph: fx.Graph, constants: Collection[Node]) -> list[Node]:
    """The calls, in order, whose values follow from fixed sizes and from the placeholders `constants` alone.

    Without those that draw random numbers and those whose memory a caller gets to hold.
    """
    shown = shown_outputs(graph)
    found: dict[Node, None] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(node.target, OpOverload) or not isinstance(value, Tensor):
            continue
        if node in shown or torch.Tag.nondeterministic_seeded in node.target.tags or not _is_fixed(node, value):
            continue
        if all(operand in found or operand in constants for operand in node.all_input_nodes):
            found[node] = None
    return list(found)


def _is_fixed(node: Node, value: Tensor) -> bool:
    """Whether sizes and numbers are plain, and the value is small enough to be kept."""
    open_numbers: list[object] = []
    map_aggregate(
        (node.args, node.kwargs),
        lambda item: open_numbers.append(item) if isinstance(item, (torch.SymInt, torch.SymFloat)) else item,
    )
    if open_numbers or not all(isinstance(size, int) for size in value.shape):
        return False
    return math.prod(value.shape) * value.element_size() <= _KEPT_BYTES
