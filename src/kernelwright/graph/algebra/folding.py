"""Scales and shifts that weights take in."""

from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.algebra.affine import Linear, affine_of, map_of
from kernelwright.graph.algebra.weights import narrow
from kernelwright.graph.node import append, same_sizes, shape_of, tensor_of

aten = torch.ops.aten


def folded(node: Node) -> Node | None:
    """Scales, shifts and a batch norm in eval mode behind a linear map or convolution become part of its weights.

    Folded in float64. Only where nothing elementwise follows, into which they would go for nothing. Where a scale is
    zero or infinite the result is what it was, NaN for NaN.
    """
    if not all(_takes_it_as_it_is(user) for user in node.users):
        return None
    chain = affine_of(node)
    if chain is None or not chain.steps:
        return None
    found, bias = chain.map, chain.shifted_bias()
    weight = narrow(chain.scaled_weight(), found.weight)
    shift = None if bias is None else narrow(bias, found.weight)
    if isinstance(found, Linear):
        return append(node.graph, aten.linear.default, found.x, weight, *([] if shift is None else [shift]))
    numbers = (list(part) for part in (found.stride, found.padding, found.dilation))
    rest = (found.transposed, list(found.output_padding), found.groups)
    return append(node.graph, aten.convolution.default, found.x, weight, shift, *numbers, *rest)


def like_terms(node: Node) -> Node | None:
    """x * c + x is x * (c + 1). Exact but for rounding; NaN and infinity alike."""
    if node.target is not aten.add.Tensor or node.kwargs or len(node.args) != 2:
        return None
    for scaled, x in (node.args, node.args[::-1]):
        if not isinstance(scaled, Node) or scaled.target is not aten.mul.Tensor or not isinstance(x, Node):
            continue
        source, factor = cast(tuple[Any, Any], scaled.args[:2])
        if source is not x or not isinstance(factor, (int, float)) or isinstance(factor, bool):
            continue
        same = tensor_of(x).dtype == tensor_of(node).dtype and same_sizes(shape_of(x), shape_of(node))
        if same and tensor_of(x).dtype.is_floating_point and len(scaled.users) == 1:
            return append(node.graph, aten.mul.Tensor, x, float(factor) + 1.0)
    return None


_TAKERS = {aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default}


def _takes_it_as_it_is(user: Node) -> bool:
    return user.op == "output" or user.target in _TAKERS or map_of(user) is not None
