"""Linear maps by weights as kernels on packed weights, with the elementwise operators that follow.

Which nodes can be one, and what its call passes.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.node import Node

from kernelwright.graph.algebra.weights import is_prepared
from kernelwright.graph.lower_emit import word_of
from kernelwright.graph.lower_epilogue import Following
from kernelwright.graph.lower_filled import FilledCall
from kernelwright.graph.lower_rule import Use
from kernelwright.graph.node import example_size, expression, is_contiguous, shape_of, tensor_of
from kernelwright.loops import Linear

aten = torch.ops.aten

LARGEST_WEIGHT = 1 << 26
"""Elements of a weight that are kept a second time, packed."""


@dataclass(frozen=True)
class LinearCall:
    """A linear map of the rows of `x` by a weight, as a kernel's call."""

    x: Node
    weight: Node
    bias: Node | None
    rows: Any
    """An integer or SymInt."""
    columns: int
    inner: int
    column_step: int
    """How far a column's weights are from the next one's, in elements; `inner_step` for those of two components."""
    inner_step: int
    kernel: Linear
    """Without a name."""
    operands: tuple[Node, ...]
    """What its epilogue reads."""
    covers: tuple[Node, ...]
    """The operators that it does, first the one whose value it gives and at whose place the call stands."""


def linear_calls(
    graph: fx.Graph, weights: Collection[Node], filled: Mapping[Node, FilledCall]
) -> dict[Node, LinearCall]:
    """The calls by the node at whose place each stands: maps that are no part of a larger call of `filled`."""
    found: dict[Node, LinearCall] = {}
    covered = {node for call in filled.values() for node in call.covers}
    for node in reversed(list(graph.nodes)):
        if is_prepared(node) or (node in covered and node not in filled):
            continue
        call = linear_call(node, weights, covered)
        if call is not None:
            found[call.covers[0]] = call
            covered |= set(call.covers)
    return found


def linear_call(node: Node, weights: Collection[Node], taken: Collection[Node] = ()) -> LinearCall | None:
    """The node as a kernel's call with what follows and is not `taken`.

    None for whatever is not a float32 map by one of `weights`, perhaps transposed.
    """
    operands = _operands(node)
    if operands is None:
        return None
    x, matrix, bias, transposed = operands
    weight = matrix
    if matrix.target is aten.permute.default and matrix.args[1] == [1, 0] and isinstance(matrix.args[0], Node):
        weight, transposed = matrix.args[0], not transposed
    if weight not in weights or (bias is not None and bias not in weights):
        return None
    given = [tensor_of(item) for item in (node, x, weight, bias) if item is not None]
    if any(item.dtype is not torch.float32 or item.device.type != "cpu" for item in given):
        return None
    if not is_contiguous(tensor_of(weight)) or not is_contiguous(tensor_of(node)):
        return None
    columns, inner = tensor_of(weight).shape if transposed else reversed(tensor_of(weight).shape)
    if not all(isinstance(size, int) and size > 0 for size in (columns, inner)) or columns * inner > LARGEST_WEIGHT:
        return None
    if bias is not None and (tensor_of(bias).shape != (columns,) or not is_contiguous(tensor_of(bias))):
        return None
    rows: Any = 1
    for size in tensor_of(x).shape[:-1]:
        rows = rows * size
    steps = (inner, 1) if transposed else (1, columns)
    following = Following(node, _along, taken)
    if not is_contiguous(tensor_of(following.last)):
        following = Following(node, _along, set(node.users))
    words = ", ".join(dict.fromkeys(map(word_of, following.members[1:])))
    kernel = Linear(following.epilogue(), note=words)
    return LinearCall(
        x,
        weight,
        bias,
        rows,
        columns,
        inner,
        *steps,
        kernel,
        following.operands,
        tuple(reversed(following.members)),
    )


def _along(use: Use, wide: Sequence[tuple[int, ...]], space: Sequence[Any]) -> str:
    """See lower_epilogue.Along."""
    if wide == [(len(space) - 1,)]:
        return "column"
    rows = [(dim,) for dim, size in enumerate(space[:-1]) if expression(size) != 1]
    return "row" if wide == rows and example_size(shape_of(use.node)[-1]) == 1 else ""


def _operands(node: Node) -> tuple[Node, Node, Node | None, bool] | None:
    """Rows, matrix, bias, and whether the matrix holds a row for each column of the result."""
    if node.target is aten.linear.default:
        x, matrix, bias = (*node.args, None)[:3]
        transposed = True
    elif node.target is aten.mm.default:
        (x, matrix), bias, transposed = node.args, None, False
    elif node.target is aten.addmm.default and not node.kwargs:
        bias, x, matrix = node.args
        transposed = False
    else:
        return None
    if not isinstance(x, Node) or not isinstance(matrix, Node) or not (bias is None or isinstance(bias, Node)):
        return None
    if tensor_of(matrix).ndim != 2 or math.prod(map(example_size, tensor_of(x).shape)) == 0:
        return None
    return x, matrix, bias, transposed
