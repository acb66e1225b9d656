"""What is computed for whole rows although only some elements are picked."""

from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.node import append, same_sizes, shape_of, tensor_of

aten = torch.ops.aten


def picked_log_softmax(node: Node) -> Node | None:
    """What is picked of a log-softmax along its rows is what is picked of x, less the row's maximum and logarithm.

    Exact: the same operations for the elements that are picked, and the others are not written down.
    """
    if node.target is not aten.gather.default:
        return None
    y, dim, index = cast(tuple[Any, int, Node], node.args[:3])
    if not isinstance(y, Node) or y.target is not aten._log_softmax.default or len(y.users) != 1:
        return None
    x, along, _ = cast(tuple[Node, int, bool], y.args)
    shape, picked = list(shape_of(x)), list(shape_of(index))
    if not shape or not picked or dim % len(shape) != along % len(shape):
        return None
    if tensor_of(x).dtype not in (torch.float32, torch.float64) or tensor_of(y).dtype != tensor_of(x).dtype:
        return None  # a narrower type would be rounded in between
    along %= len(shape)
    del shape[along], picked[along]
    if not same_sizes(shape, picked):
        return None
    graph = node.graph
    top = append(graph, aten.amax.default, x, [along], True)
    total = append(
        graph,
        aten.sum.dim_IntList,
        append(graph, aten.exp.default, append(graph, aten.sub.Tensor, x, top)),
        [along],
        True,
    )
    own = append(graph, aten.sub.Tensor, append(graph, aten.gather.default, x, dim, index), top)
    return append(graph, aten.sub.Tensor, own, append(graph, aten.log.default, total))
