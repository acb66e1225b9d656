"""Pools after pools, and pools before what is monotone."""

import math
import operator
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.algebra.weights import is_weight
from kernelwright.graph.node import append, expression, same_sizes, shape_of, tensor_of

aten = torch.ops.aten

_MAXIMA = {aten.max_pool2d_with_indices.default: 2, aten.max_pool3d_with_indices.default: 3}
_AVERAGES = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}
_RISING = {
    aten.tanh.default,
    aten.sigmoid.default,
    aten.relu.default,
    aten.exp.default,
    aten.hardsigmoid.default,
    aten.softplus.default,
    aten.hardtanh.default,
    aten.clamp.default,
    aten.clamp_min.default,
    aten.clamp_max.default,
}
"""Never falling, NaN for NaN, with numbers beside their operand alone."""


def pool_of_pool(node: Node) -> Node | None:
    """Maxima of maxima, and averages of averages, over windows side by side are those over larger windows.

    Exact for maxima; averages but for rounding.
    """
    if node.target in _AVERAGES:
        rank, outer, inner = _AVERAGES[node.target], node, node.args[0]  # type: ignore[index]
    else:
        outer = _pool_of(node)
        inner = _pool_of(outer.args[0]) if outer is not None else None
        if outer is None or inner is None or len(cast(Node, outer.args[0]).users) != 1:
            return None
        rank = _MAXIMA[outer.target]  # type: ignore[index]
    if not isinstance(inner, Node) or inner.target is not outer.target or len(inner.users) != 1:
        return None
    sizes = _side_by_side(outer, rank), _side_by_side(inner, rank)
    if sizes[0] is None or sizes[1] is None:
        return None
    window = [a * b for a, b in zip(sizes[0], sizes[1], strict=True)]
    if math.prod(window) > 4096:
        return None
    pool = append(node.graph, outer.target, inner.args[0], window, window)  # type: ignore[arg-type]
    return pool if node is outer else _first(pool)


def pool_before_rising(node: Node) -> Node | None:
    """The maximum of values of a function that never falls is its value at the maximum: fewer values to compute.

    Exact, NaN included, as far as the function as computed never falls.
    """
    pool = _pool_of(node)
    if pool is None:
        return None
    y = cast(Node, pool.args[0])
    x = _rising_of(y)
    if x is None or len(y.users) != 1:
        return None
    moved = _first(append(node.graph, pool.target, x, *pool.args[1:]))  # type: ignore[arg-type]
    args = tuple(moved if item is x else item for item in y.args)
    return append(node.graph, y.target, *args, **y.kwargs)  # type: ignore[arg-type]


def _rising_of(y: Node) -> Node | None:
    """The operand of a function that never falls and keeps dtype and shape."""
    if y.op != "call_function" or not y.args or not isinstance(y.args[0], Node):
        return None
    x, *rest = cast(tuple[Any, ...], y.args)
    if y.target in _RISING:
        if any(isinstance(item, Node) for item in (*rest, *y.kwargs.values())):
            return None
    elif y.target in (aten.mul.Tensor, aten.div.Tensor, aten.leaky_relu.default):
        factor = rest[0] if rest else 0.01
        if not isinstance(factor, (int, float)) or factor <= 0 or factor == math.inf or y.kwargs:
            return None
    elif y.target in (aten.add.Tensor, aten.sub.Tensor):
        if y.kwargs or len(rest) != 1 or not (isinstance(rest[0], (int, float)) or _per_channel(rest[0], x)):
            return None
    else:
        return None
    same = tensor_of(x).dtype == tensor_of(y).dtype and same_sizes(shape_of(x), shape_of(y))
    return x if same and tensor_of(x).dtype.is_floating_point else None


def _per_channel(value: Any, x: Node) -> bool:
    """Whether a weight is the same for all places of a channel, and finite or not makes no difference to its pool."""
    if not isinstance(value, Node) or not is_weight(value) or len(shape_of(value)) > len(shape_of(x)):
        return False
    shape = [1] * (len(shape_of(x)) - len(shape_of(value))) + [expression(size) for size in shape_of(value)]
    return all(size == 1 for size in shape[2:])


def _pool_of(node: Any) -> Node | None:
    """The maximum pool of which the node is the values, where nobody wants the places."""
    if not isinstance(node, Node) or node.target is not operator.getitem or node.args[1] != 0:
        return None
    pool = cast(Node, node.args[0])
    return pool if pool.target in _MAXIMA and len(pool.users) == 1 else None


def _side_by_side(pool: Node, rank: int) -> list[int] | None:
    """The window of a pool without padding whose stride it is."""
    window, stride, padding, *rest = cast(tuple[Any, ...], (*pool.args[1:], *([], [0])[max(0, len(pool.args) - 2) :]))
    window, stride = list(window), list(stride or window)
    plain = all(item in (1, False, [1], [1] * rank) for item in rest) if pool.target in _MAXIMA else not rest
    window = window * rank if len(window) == 1 else window
    stride = stride * rank if len(stride) == 1 else stride
    return window if plain and window == stride and not any(padding) else None


def _first(pool: Node) -> Node:
    taken = pool.graph.call_function(operator.getitem, (pool, 0))
    taken.meta["val"] = pool.meta["val"][0]
    return taken
