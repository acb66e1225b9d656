"""Sums and averages over the outputs of a linear map: the weights are summed instead, once."""

from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.algebra.affine import Affine, Linear, affine_of
from kernelwright.graph.algebra.weights import narrow, prepared, shaped, summed, times
from kernelwright.graph.node import append, expression, shape_of, tensor_of

aten = torch.ops.aten


def summed_outputs(node: Node) -> Node | None:
    """The sum or mean over all outputs of a linear map is a linear map with one output: x times the sum of W's rows.

    Exact but for rounding, which is that of one dot product instead of many. Between them only scales and shifts by
    weights. NaN comes out where it did; of infinite x the result may be infinite where it was NaN.
    """
    if node.target not in (aten.sum.dim_IntList, aten.mean.dim) or node.kwargs:
        return None
    y, dims, keep = cast(tuple[Any, ...], (*node.args, None, False))[:3]
    keep = len(node.args) > 2 and bool(node.args[2])
    if not isinstance(y, Node) or not dims or len(y.users) != 1:
        return None
    chain = affine_of(y)
    if (
        chain is None
        or not isinstance(chain.map, Linear)
        or [dim % len(shape_of(y)) for dim in dims] != [chain.map.channel]
    ):
        return None
    count = chain.map.channels if node.target is aten.mean.dim else 1
    made = _mapped(chain, summed(chain.scaled_weight(), [0], True), _each(chain, 1), 1 / count)
    return made if keep else append(node.graph, aten.squeeze.dims, made, [chain.map.channel])


def pooled_outputs(node: Node) -> Node | None:
    """The averages of neighbouring outputs of a linear map are a linear map with fewer outputs: W's rows averaged.

    As sound as `summed_outputs`.
    """
    if node.target is not aten.avg_pool2d.default or not isinstance(node.args[0], Node):
        return None
    window, stride, padding, ceil, _, divisor = (*node.args[1:], *([], [0, 0], False, True, None)[len(node.args) - 2 :])
    window, stride, padding = (list(cast(Any, part) or []) for part in (window, stride, padding))
    if ceil or divisor or any(padding) or len(window) != 2 or window[0] != 1 or (stride or window) != window:
        return None
    y = node.args[0]
    while y.target in (aten.view.default, aten.unsqueeze.default, aten.squeeze.dims) and len(y.users) == 1:
        y = cast(Node, y.args[0])
    if len(y.users) != 1 or _plain(y) != _plain(node.args[0]):
        return None
    chain = affine_of(y)
    if chain is None or not isinstance(chain.map, Linear) or chain.map.channels != shape_of(node.args[0])[-1]:
        return None
    size, count = int(cast(Any, window[1])), chain.map.channels // int(cast(Any, window[1]))
    if count < 1:
        return None
    weight = chain.scaled_weight()
    whole = (
        weight
        if count * size == chain.map.channels
        else prepared(weight, aten.slice.Tensor, weight, 0, 0, count * size)
    )
    rows = summed(shaped(whole, [count, size, int(shape_of(weight)[1])]), [1])
    made = _mapped(chain, rows, _each(chain, count, size), 1 / size)
    return append(node.graph, aten.view.default, made, list(shape_of(node)))


def _each(chain: Affine, count: int, size: int | None = None) -> Node | None:
    """The sums of the chain's shift over `count` groups of outputs."""
    bias = chain.shifted_bias()
    if bias is None:
        return None
    size = size or chain.map.channels
    whole = bias if count * size == chain.map.channels else prepared(bias, aten.slice.Tensor, bias, 0, 0, count * size)
    return summed(shaped(whole, [count, size]), [1])


def _mapped(chain: Affine, weight: Node, bias: Node | None, factor: float) -> Node:
    found = cast(Linear, chain.map)
    given = narrow(times(weight, factor), found.weight)
    shift = None if bias is None else narrow(times(bias, factor), found.weight)
    return append(found.node.graph, aten.linear.default, found.x, given, *([] if shift is None else [shift]))


def _plain(node: Node) -> list[Any]:
    return [expression(size) for size in tensor_of(node).shape if expression(size) != 1]
