"""Rules that remove what has no effect. Each keeps every value, NaNs and infinities included, unless it says so."""

import operator
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.node import append, same_sizes, shape_of, tensor_of

aten = torch.ops.aten

_NEUTRAL: dict[Any, int] = {
    aten.mul.Tensor: 1,
    aten.mul.Scalar: 1,
    aten.div.Tensor: 1,
    aten.div.Scalar: 1,
    aten.pow.Tensor_Scalar: 1,
    aten.add.Tensor: 0,
    aten.add.Scalar: 0,
    aten.sub.Tensor: 0,
    aten.sub.Scalar: 0,
}
_COMMUTES = frozenset({aten.mul.Tensor, aten.add.Tensor})
_FLOATS_WITHIN = {
    torch.float16: {torch.float16, torch.float32, torch.float64},
    torch.bfloat16: {torch.bfloat16, torch.float32, torch.float64},
    torch.float32: {torch.float32, torch.float64},
}
"""The dtypes that hold every value of a dtype."""


def neutral(node: Node) -> Node | None:
    """x * 1, x / 1, x ** 1, x + 0 and x - 0 are x, where dtype and shape are x's.

    Exact, except that x + 0 loses the sign of a negative zero and this does not.
    """
    if node.target not in _NEUTRAL or len(node.args) != 2 or node.kwargs:
        return None
    left, right = node.args
    pairs = [(left, right), (right, left)] if node.target in _COMMUTES else [(left, right)]
    for x, number in pairs:
        if isinstance(x, Node) and isinstance(number, (int, float)) and number == _NEUTRAL[node.target]:
            return x if _same_kind(x, node) else None
    return None


def double_permutation(node: Node) -> Node | None:
    """A permutation of a permutation is one permutation, or none. Moves no values."""
    inner = _operand(node, aten.permute.default)
    if inner is None:
        return None
    source, first = cast(tuple[Node, list[int]], inner.args)
    second = cast(list[int], node.args[1])
    rank = len(first)
    order = [first[dim % rank] % rank for dim in second]
    if order == list(range(rank)):
        return source
    return append(node.graph, aten.permute.default, source, order)


def double_view(node: Node) -> Node | None:
    """A view of a view is one view, or none. Moves no values."""
    inner = _operand(node, aten.view.default)
    if inner is None:
        return None
    source = cast(Node, inner.args[0])
    if same_sizes(shape_of(source), shape_of(node)):
        return source
    return append(node.graph, aten.view.default, source, list(cast(list[Any], node.args[1])))


def cast_there_and_back(node: Node) -> Node | None:
    """A conversion to a wider floating dtype and back is nothing. Exact: the wider dtype holds every value."""
    inner = _operand(node, aten._to_copy.default)
    if inner is None:
        return None
    source = cast(Node, inner.args[0])
    before, between, after = tensor_of(source).dtype, tensor_of(inner).dtype, tensor_of(node).dtype
    plain = set(node.kwargs) <= {"dtype"} and set(inner.kwargs) <= {"dtype"}
    return source if plain and before == after and between in _FLOATS_WITHIN.get(before, ()) else None


def dropout(node: Node) -> Node | None:
    """Dropout outside training, or of nothing, is the identity. Exact."""
    if node.target is aten.dropout.default:
        x, probability, training = cast(tuple[Node, float, bool], node.args)
        return x if not training or probability == 0 else None
    if node.target is operator.getitem and node.args[1] == 0:
        source = cast(Node, node.args[0])
        if source.target is aten.native_dropout.default:
            x, probability, training = cast(tuple[Node, float, bool | None], source.args)
            return x if training is False or probability == 0 else None
    return None


def _operand(node: Node, target: Any) -> Node | None:
    """The node's operand, where both are calls of `target`."""
    if node.target is not target or not isinstance(node.args[0], Node) or node.args[0].target is not target:
        return None
    return node.args[0]


def _same_kind(x: Node, node: Node) -> bool:
    return tensor_of(x).dtype == tensor_of(node).dtype and same_sizes(shape_of(x), shape_of(node))
