"""Linear maps by weights as kernels on packed weights: which nodes can be one, and what its call passes."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.node import Node

from kernelwright.graph.node import example_size, is_contiguous, tensor_of

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


def linear_call(node: Node, weights: Collection[Node]) -> LinearCall | None:
    """The node as a kernel's call; None for whatever is not a float32 map by one of `weights`, perhaps transposed."""
    taken = _operands(node)
    if taken is None:
        return None
    x, matrix, bias, transposed = taken
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
    return LinearCall(x, weight, bias, rows, columns, inner, *steps)


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
