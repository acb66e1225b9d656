"""scaled_dot_product_attention as a kernel: which nodes can be one, and what its call passes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_emit import Source
from kernelwright.graph.lower_layout import memory_order
from kernelwright.graph.node import base_of, expression, same_size, tensor_of
from kernelwright.loops import LARGEST_HEAD, Attention

aten = torch.ops.aten

FEWEST_QUERIES = 8
"""Queries are the lanes of a vector: with fewer, most of each would be idle."""


@dataclass(frozen=True)
class AttentionCall:
    """A kernel without a name, and what its call passes after the result."""

    kernel: Attention
    sources: tuple[Source, ...]
    numbers: tuple[Any, ...]
    """Integers and SymInts: offsets and distances, then sizes; last the scale."""
    order: tuple[int, ...]
    """The result's dimensions in the order of its memory."""


def attention_call(node: Node) -> AttentionCall | None:
    """The node as a kernel's call; None for whatever is not plain float32 attention without a mask."""
    if node.target is not aten.scaled_dot_product_attention.default:
        return None
    query, key, value, *rest = node.args
    mask, dropout, causal = (*rest, *(None, 0.0, False)[len(rest) :])
    given = [tensor_of(operand) for operand in (query, key, value) if isinstance(operand, Node)]
    if mask is not None or dropout or node.kwargs.get("enable_gqa") or len(given) != 3 or not _plain(given):
        return None
    q, k, v = given
    if causal and not same_size(q.shape[3], v.shape[3]):
        return None  # PyTorch adds a mask here, which spreads the NaN of a hidden key to queries that do not see it
    order = _order_wanted(node)
    result = [q.shape[0], q.shape[1], q.shape[2], v.shape[3]]
    sources, layouts = [], [_dense(result, order)]
    for operand in (query, key, value):
        assert isinstance(operand, Node)
        source, layout = _read(operand)
        sources.append(source)
        layouts.append(layout)
    scale = node.kwargs.get("scale")
    return AttentionCall(
        Attention(int(q.shape[3]), int(v.shape[3]), bool(causal)),
        tuple(sources),
        (
            *(number for layout in layouts for number in layout),
            *(q.shape[0], q.shape[1], q.shape[2], k.shape[2]),
            float(q.shape[3]) ** -0.5 if scale is None else float(scale),  # type: ignore[arg-type]
        ),
        order,
    )


def _plain(given: Sequence[Tensor]) -> bool:
    q, k, v = given
    return (
        all(tensor.ndim == 4 and tensor.dtype is torch.float32 and tensor.device.type == "cpu" for tensor in given)
        and all(isinstance(tensor.shape[3], int) and 0 < tensor.shape[3] <= LARGEST_HEAD for tensor in given)
        and all(same_size(q.shape[dim], other.shape[dim]) for other in (k, v) for dim in (0, 1))
        and same_size(k.shape[2], v.shape[2])
        and same_size(q.shape[3], k.shape[3])
        and not _known_below(q.shape[2], FEWEST_QUERIES)
        and not _known_below(k.shape[2], 1)
    )


def _known_below(size: Any, least: int) -> bool:
    return isinstance(size, int) and size < least


def _read(operand: Node) -> tuple[Source, tuple[Any, ...]]:
    """The memory to pass, and where in it the operand lies; a copy of the operand where it has no simple place."""
    value, base = tensor_of(operand), base_of(operand)
    given = base.meta.get("val")
    if isinstance(given, Tensor) and _shares(value, given) and expression(value.stride(3)) == 1:
        order = memory_order(given)
        if order is not None:
            plain = tuple(order) == tuple(range(given.ndim))
            offset = value.storage_offset() - given.storage_offset()
            return Source(base, None if plain else tuple(order)), (offset, *value.stride()[:3])
    return Source(operand, None), _dense(list(value.shape), (0, 1, 2, 3))


def _shares(value: Tensor, base: Tensor) -> bool:
    return value.untyped_storage()._cdata == base.untyped_storage()._cdata


def _dense(shape: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """Offset and distances of batches, heads and rows for a tensor whose dimensions lie in memory in that order."""
    strides: dict[int, Any] = {}
    step: Any = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    return 0, strides[0], strides[1], strides[2]


def _order_wanted(node: Node) -> tuple[int, ...]:
    """The order in which whoever copies or flattens the result wants its dimensions; heads beside each other else.

    Follows a chain of single users that only move dimensions.
    """
    places: list[int | None] = [0, 1, 2, 3]
    while len(node.users) == 1:
        (user,) = node.users
        if user.target is aten.permute.default:
            places = [places[dim] for dim in user.args[1]]  # type: ignore[index,union-attr]
        elif user.target is aten.unsqueeze.default:
            dim: Any = user.args[1]
            places.insert(dim % (len(places) + 1), None)
        elif user.target in (aten.squeeze.dims, aten.squeeze.dim):
            gone: Any = user.args[1]
            gone = {dim % len(places) for dim in (gone if isinstance(gone, (list, tuple)) else [gone])}
            places = [place for index, place in enumerate(places) if index not in gone]
        elif user.target in (aten.view.default, aten.clone.default, aten.reshape.default):
            break
        else:
            places = [0, 2, 1, 3]
            break
        node = user
    kept = [place for place in places if place is not None]
    order = [*(dim for dim in range(4) if dim not in kept), *kept]  # what was squeezed has size 1 and lies anywhere
    return tuple(order) if order[-1] == 3 else (0, 2, 1, 3)
