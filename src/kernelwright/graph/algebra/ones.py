"""Reductions over dimensions of size one, which reduce nothing."""

import math
import operator
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.node import append, expression, same_sizes, shape_of, tensor_of

aten = torch.ops.aten

_REDUCTIONS = {aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default}
_WITH_PLACES = {aten.max.dim, aten.min.dim}


def single(node: Node) -> Node | None:
    """A sum, mean, maximum or minimum over dimensions of size one is the element itself. Exact, NaN included."""
    if node.target in _REDUCTIONS:
        x, dims = cast(tuple[Any, ...], (*node.args, None))[:2]
        dims = [dims] if isinstance(dims, int) else list(dims or range(len(shape_of(x))))
    elif node.target is operator.getitem and node.args[1] == 0 and _of_extreme(node):
        x, dim = cast(tuple[Any, ...], cast(Node, node.args[0]).args)[:2]
        dims = [dim]
    else:
        return None
    shape = shape_of(x)
    if not dims or tensor_of(x).dtype != tensor_of(node).dtype or not shape:
        return None
    if any(expression(shape[dim]) != 1 for dim in dims):
        return None
    return x if same_sizes(shape, shape_of(node)) else append(node.graph, aten.squeeze.dims, x, sorted(dims))


def logsumexp_of_one(node: Node) -> Node | None:
    """log(exp(x - m)) + m with m = x, or 0 where x is infinite, is x: a logsumexp over one element.

    Exact for finite x, where exp(0) and its logarithm are exact, and for infinities and NaN.
    """
    if node.target is not aten.add.Tensor or len(node.args) != 2 or node.kwargs:
        return None
    log, m = node.args
    sub = _operand(_operand(log, aten.log.default), aten.exp.default)
    if not isinstance(sub, Node) or sub.target is not aten.sub.Tensor or sub.kwargs or len(sub.args) != 2:
        return None
    x, taken = cast(tuple[Any, Any], sub.args)
    m, taken = _shown(m), _shown(taken)
    if not isinstance(m, Node) or m is not taken or m.target is not aten.where.self:
        return None
    condition, zero, value = cast(tuple[Any, Any, Any], m.args)
    if _shown(value) is not _shown(x) or not _is_zero(zero) or not isinstance(condition, Node):
        return None
    if condition.target not in (aten.eq.Scalar, aten.eq.Tensor) or condition.args[1] != math.inf:
        return None
    inner = _operand(condition.args[0], aten.abs.default)
    return x if _shown(inner) is _shown(x) and same_sizes(shape_of(x), shape_of(node)) else None


def _of_extreme(node: Node) -> bool:
    return cast(Node, node.args[0]).target in _WITH_PLACES


def _operand(node: Any, target: Any) -> Any:
    return node.args[0] if isinstance(node, Node) and node.target is target else None


def _shown(node: Any) -> Any:
    """The node without views that only add or take dimensions of size one."""
    while isinstance(node, Node) and node.target in (aten.squeeze.dims, aten.unsqueeze.default, aten.view.default):
        node = node.args[0]
    return node


def _is_zero(value: Any) -> bool:
    if isinstance(value, Node):
        return value.target in (aten.full.default, aten.scalar_tensor.default) and cast(Any, value.args[-1]) == 0
    return isinstance(value, (int, float)) and value == 0
