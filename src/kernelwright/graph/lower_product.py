"""Matrix products as kernels of our own: of any two operands, in batches, and of triangles of the result."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.lower_attention import read_in_place
from kernelwright.graph.lower_emit import Source, row_major_strides
from kernelwright.graph.lower_filled import FilledCall, Maker, call_of, product, scalar_of
from kernelwright.graph.node import example_size, expression, same_size, same_sizes, shape_of, tensor_of
from kernelwright.loops import ScalarType
from kernelwright.loops.cpp import MEMORY

aten = torch.ops.aten

LEAST_INNER = 96
"""Of shorter sums the result's memory is what costs, and a library is as fast."""
LEAST_INNER_OF_BATCH = 64
THIN = 4
"""So few rows or columns are a stream over the other operand, whatever its length (templates/gemm.hpp)."""


def _product(node: Node) -> FilledCall | None:
    a, b = cast(tuple[Node, Node], node.args)
    return _call(node, node, a, b, ()) if _pays(node, a, b) else None


def _map(node: Node) -> FilledCall | None:
    x, weight, bias = cast(tuple[Node, Node, Node | None], (*node.args, None)[:3])
    return _call(node, node, x, weight, (), bias=bias, turned=True) if _pays(node, x, weight) else None


def _sum(node: Node) -> FilledCall | None:
    bias, a, b = cast(tuple[Node, Node, Node], node.args)
    return None if node.kwargs or not _pays(node, a, b) else _call(node, node, a, b, (), bias=bias)


def _triangle(node: Node) -> FilledCall | None:
    """triu or tril of a product: where(columns - rows >= diagonal, product, 0) as decomposed."""
    condition, whole, other = cast(tuple[Node, Node, Node], node.args)
    if whole.target not in (aten.matmul.default, aten.mm.default, aten.bmm.default) or len(whole.users) > 1:
        return None
    if other.target is not aten.scalar_tensor.default or other.args[0] != 0:
        return None
    if condition.target not in (aten.ge.Scalar, aten.le.Scalar) or tensor_of(node).dtype != tensor_of(whole).dtype:
        return None
    distance, diagonal = cast(tuple[Node, Any], condition.args)
    shape = shape_of(whole)
    if distance.target is not aten.sub.Tensor or distance.kwargs or not isinstance(diagonal, int):
        return None
    columns, rows = cast(tuple[Node, Node], distance.args)
    if not _counts(columns, 0, shape[-1]) or not _counts(rows, 1, shape[-2]):
        return None
    a, b = cast(tuple[Node, Node], whole.args)
    band = (diagonal, None) if condition.target is aten.ge.Scalar else (None, diagonal)
    marks = [item for item in (condition, distance) if len(item.users) == 1]
    return _call(node, whole, a, b, (whole, *marks), band=band)


def _counts(node: Any, dim: int, size: Any) -> bool:
    """Whether the node is 0, 1, ... below size, with another dimension at `dim`."""
    if not isinstance(node, Node) or node.target is not aten.unsqueeze.default or node.args[1] not in (dim, dim - 2):
        return False
    counted = node.args[0]
    if not isinstance(counted, Node) or counted.target is not aten.arange.start_step:
        return False
    return bool(counted.args[0] == 0) and len(counted.args) == 2 and same_size(shape_of(counted)[0], size)


def _pays(node: Node, a: Node, b: Node) -> bool:
    if _is_thin(node):
        return True
    inner, made = example_size(shape_of(a)[-1]), [example_size(size) for size in shape_of(node)]
    batched = len(shape_of(b)) > 2 and made[0] > 1
    return inner >= (LEAST_INNER_OF_BATCH if batched else LEAST_INNER)


def _is_thin(node: Node) -> bool:
    made = [example_size(size) for size in shape_of(node)]
    return len(made) < 2 or min(made[-2:]) <= THIN


def _call(
    node: Node,
    whole: Node,
    a: Node,
    b: Node,
    covers: Sequence[Node],
    *,
    bias: Node | None = None,
    turned: bool = False,
    band: tuple[int | None, int | None] = (None, None),
) -> FilledCall | None:
    """The product as a call; `bias` is added to each row; `turned`: b holds a row for each column of the result."""
    type = scalar_of(a)
    if type not in (ScalarType.FLOAT32, ScalarType.FLOAT64) or scalar_of(b) is not type or scalar_of(whole) is not type:
        return None
    if bias is not None and (scalar_of(bias) is not type or not same_sizes(shape_of(bias), shape_of(whole)[-1:])):
        return None
    left, right = _matrices(a), _matrices(b, turned=True if len(shape_of(b)) == 1 else turned)
    if left is None or right is None:
        return None
    (x, (x_offset, *x_steps), x_sizes), (y, (y_offset, *y_steps), y_sizes) = left, right
    batch: Any = 1
    rows, inner, columns = x_sizes[-2], x_sizes[-1], y_sizes[-1]
    if len(y_sizes) == 2:
        # One matrix for all: what stands before the rows is rows as well.
        if not _one_step(x_sizes[:-1], x_steps[:-1]):
            x, (x_offset, *x_steps) = _copied(a)
        if len(x_sizes) > 2 and band != (None, None):
            return None
        rows, x_steps, y_steps = product(x_sizes[:-1]), [0, *x_steps[-2:]], [0, *y_steps]
    elif len(x_sizes) == len(y_sizes) and all(map(same_size, x_sizes[:-2], y_sizes[:-2])):
        if not _one_step(x_sizes[:-2], x_steps[:-2]):
            x, (x_offset, *x_steps) = _copied(a)
        if not _one_step(y_sizes[:-2], y_steps[:-2]):
            y, (y_offset, *y_steps) = _copied(b)
        batch, x_steps, y_steps = product(x_sizes[:-2]), x_steps[-3:], y_steps[-3:]
    else:
        return None
    if any(expression(size) == 0 for size in (batch, rows, columns)):
        return None
    low, high = band
    added = [] if bias is None else [bias]
    sizes = [batch, rows, columns, inner, x_offset, *x_steps, y_offset, *y_steps]
    sizes += [-rows if low is None else low, columns if high is None else high]
    call = call_of("gemm", f"gemm::run<{MEMORY[type]}>", node, [node], [a, b, *added], sizes, covers=covers)
    return None if call is None else replace(call, sources=(x, y, *(Source(item, None) for item in added)))


def _matrices(operand: Node, *, turned: bool = False) -> tuple[Any, tuple[Any, ...], list[Any]] | None:
    """The memory to pass, offset and strides in it, and sizes; `turned` with the last two dimensions exchanged.

    A vector is a matrix of one row.
    """
    source, (offset, *steps) = read_in_place(operand, adjacent=False)
    sizes = list(shape_of(operand))
    if len(sizes) == 0:
        return None
    if len(sizes) == 1:
        sizes, steps = [1, *sizes], [0, *steps]
    if turned:
        sizes[-2:], steps[-2:] = sizes[:-3:-1], steps[:-3:-1]
    return source, (offset, *steps), sizes


def _one_step(sizes: Sequence[Any], steps: Sequence[Any]) -> bool:
    """Whether the dimensions are one with the last one's step."""
    pairs = zip(sizes[:-1], steps[:-1], sizes[1:], steps[1:], strict=True)
    return all(expression(outer) == expression(size * step) for _, outer, size, step in pairs)


def _copied(operand: Node) -> tuple[Source, tuple[Any, ...]]:
    """A row-major copy of the operand, and offset and strides in it."""
    return Source(operand, None), (0, *row_major_strides(shape_of(operand)))


PRODUCTS: dict[Any, Maker] = {
    aten.addmm.default: _sum,
    aten.bmm.default: _product,
    aten.linear.default: _map,
    aten.matmul.default: _product,
    aten.mm.default: _product,
    aten.where.self: _triangle,
}
UNUSUAL_PRODUCTS: dict[Any, Maker] = PRODUCTS | {
    target: lambda node, make=make: make(node) if _is_thin(node) else None
    for target, make in PRODUCTS.items()
    if make is not _triangle
}
"""Those that no library is made for: of few rows or columns, and triangles."""
