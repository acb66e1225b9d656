"""What follows from weights alone, computed in float64 by prepare() and not in every call."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.node import Node

from kernelwright.graph.node import VIEWS, append, shape_of, tensor_of

aten = torch.ops.aten


def is_weight(node: Any) -> bool:
    """Whether the node's values change only when weights do: a parameter or buffer, a view of one, or prepared."""
    while isinstance(node, Node) and node.op == "call_function" and not is_prepared(node):
        if node.target not in VIEWS or not all(isinstance(item, Node) for item in node.args[:1]):
            return False
        node = node.args[0]
    return isinstance(node, Node) and (is_prepared(node) or bool(node.meta.get("weight")))


def is_prepared(node: Node) -> bool:
    """Whether the node is printed into prepare()."""
    return bool(node.meta.get("prepared"))


def prepared(like: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """Adds a call on weights to the graph of `like`, for prepare() to make."""
    node = append(like.graph, target, *args, **kwargs)
    node.meta["prepared"] = True
    return node


def wide(weight: Node) -> Node:
    """The weight in float64; what an earlier rule rounded is taken before its rounding."""
    if is_prepared(weight) and weight.target is aten.clone.default:
        return wide(weight.args[0])  # type: ignore[arg-type]
    if tensor_of(weight).dtype is torch.float64:
        return weight
    if is_prepared(weight) and weight.target is aten._to_copy.default:
        return weight.args[0]  # type: ignore[return-value]
    return prepared(weight, aten._to_copy.default, weight, dtype=torch.float64)


def narrow(value: Node, like: Node) -> Node:
    """A float64 value in the dtype of `like`, dense in memory."""
    dtype = tensor_of(like).dtype
    if dtype is not torch.float64:
        value = prepared(value, aten._to_copy.default, value, dtype=dtype)
    return prepared(value, aten.clone.default, value, memory_format=torch.contiguous_format)


def times(value: Node, factor: "Node | float") -> Node:
    return value if factor == 1.0 else prepared(value, aten.mul.Tensor, value, factor)


def plus(value: Node, term: "Node | float") -> Node:
    return value if term == 0.0 else prepared(value, aten.add.Tensor, value, term)


def summed(value: Node, dims: Sequence[int], keep: bool = False) -> Node:
    return prepared(value, aten.sum.dim_IntList, value, list(dims), keep) if dims else value


def shaped(value: Node, sizes: Sequence[int]) -> Node:
    """The value, which is dense, in another shape."""
    if list(shape_of(value)) == list(sizes):
        return value
    dense = prepared(value, aten.clone.default, value, memory_format=torch.contiguous_format)
    return prepared(value, aten.view.default, dense, list(sizes))
