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
    """The node as a kernel's call; None for whatever is not plain float32 attention."""
    if node.target is not aten.scaled_dot_product_attention.default:
        return None
    query, key, value, *rest = node.args
    mask, dropout, causal = (*rest, *(None, 0.0, False)[len(rest) :])
    if dropout or not all(isinstance(operand, Node) for operand in (query, key, value)):
        return None
    assert isinstance(query, Node) and isinstance(key, Node) and isinstance(value, Node)
    doubled = [_shared_heads(operand) for operand in (key, value)]
    if all(doubled):
        key, value = (source for source in doubled if source)
    q, k, v = given = [tensor_of(operand) for operand in (query, key, value)]
    shared = _heads_to_one(given, bool(node.kwargs.get("enable_gqa") or all(doubled)))
    if shared is None or not _plain(given):
        return None
    if causal and not same_size(q.shape[3], v.shape[3]):
        return None  # PyTorch adds a mask here, which spreads the NaN of a hidden key to queries that do not see it
    order = _order_wanted(node)
    result = [q.shape[0], q.shape[1], q.shape[2], v.shape[3]]
    sources, layouts = [], [_dense(result, order)[:4]]
    for operand in (query, key, value):
        source, layout = read_in_place(operand, adjacent=True)
        sources.append(source)
        layouts.append(layout[:4])
    kind = ""
    if mask is not None:
        scores = [q.shape[0], q.shape[1], q.shape[2], k.shape[2]]
        if not isinstance(mask, Node) or not _broadcasts(tensor_of(mask), scores):
            return None
        kind = _MASKS.get(tensor_of(mask).dtype, "")
        if not kind:
            return None
        source, (offset, *steps) = read_in_place(mask, adjacent=False)
        sources.append(source)
        sizes = tensor_of(mask).shape
        steps = [0 if expression(size) == 1 else step for size, step in zip(sizes, steps, strict=True)]
        layouts.append((offset, *(0 for _ in range(4 - len(steps))), *steps))
    scale = node.kwargs.get("scale")
    return AttentionCall(
        Attention(int(q.shape[3]), int(v.shape[3]), bool(causal), kind),
        tuple(sources),
        (
            *(number for layout in layouts for number in layout),
            *(q.shape[0], q.shape[1], shared, q.shape[2], k.shape[2]),
            float(q.shape[3]) ** -0.5 if scale is None else float(scale),  # type: ignore[arg-type]
        ),
        order,
    )


_MASKS = {torch.bool: "kept", torch.float32: "added"}


def _broadcasts(mask: Tensor, scores: Sequence[Any]) -> bool:
    """Whether each of the mask's sizes is the scores' or 1."""
    if not 2 <= mask.ndim <= 4 or mask.device.type != "cpu":
        return False
    aligned = zip(reversed(mask.shape), reversed(scores), strict=False)
    return all(expression(size) == 1 or same_size(size, whole) for size, whole in aligned)


def _shared_heads(operand: Node) -> Node | None:
    """What keys or values were before each head was repeated for the heads of queries that share it.

    That is view(copy(expand(unsqueeze(x, 2)))) of (batch, head, row, component), as transformers writes it.
    """
    chain = []
    for target in (aten.view.default, aten.clone.default, aten.expand.default, aten.unsqueeze.default):
        if operand.target is target and isinstance(operand.args[0], Node):
            chain.append(operand)
            operand = operand.args[0]
        elif target is not aten.clone.default:
            return None
    view, expanded, added = chain[0], chain[-2], chain[-1]
    source, wide, whole = (tensor_of(item).shape for item in (operand, expanded, view))
    if len(source) != 4 or len(wide) != 5 or len(whole) != 4 or added.args[1] not in (2, -3):
        return None
    kept = same_size(wide[1], source[1]) and same_size(whole[1], wide[1] * wide[2])
    return operand if kept and all(same_size(source[dim], whole[dim]) for dim in (0, 2, 3)) else None


def _heads_to_one(given: Sequence[Tensor], grouped: bool) -> int | None:
    """How many heads of queries share one of keys and values; None where that is not the same whole number for all."""
    if any(tensor.ndim != 4 for tensor in given):
        return None
    heads, keys, values = (tensor.shape[1] for tensor in given)
    if same_size(heads, keys) and same_size(heads, values):
        return 1
    if not grouped or not same_size(keys, values) or not (isinstance(heads, int) and isinstance(keys, int)):
        return None
    return heads // keys if keys and heads % keys == 0 else None


def _plain(given: Sequence[Tensor]) -> bool:
    q, k, v = given
    return (
        all(tensor.ndim == 4 and tensor.dtype is torch.float32 and tensor.device.type == "cpu" for tensor in given)
        and all(isinstance(tensor.shape[3], int) and 0 < tensor.shape[3] <= LARGEST_HEAD for tensor in given)
        and all(same_size(q.shape[0], other.shape[0]) for other in (k, v))
        and same_size(k.shape[2], v.shape[2])
        and same_size(q.shape[3], k.shape[3])
        and not _known_below(q.shape[2], FEWEST_QUERIES)
        and not _known_below(k.shape[2], 1)
    )


def _known_below(size: Any, least: int) -> bool:
    return isinstance(size, int) and size < least


def read_in_place(operand: Node, *, adjacent: bool) -> tuple[Source, tuple[Any, ...]]:
    """The memory to pass, and where in it the operand lies: offset and strides.

    A copy of the operand where it has no simple place; `adjacent` asks for a last stride of 1.
    """
    value, base = tensor_of(operand), base_of(operand)
    given = base.meta.get("val")
    if isinstance(given, Tensor) and given.dtype == value.dtype and _shares(value, given):
        order = memory_order(given)
        if order is not None and not (adjacent and expression(value.stride()[-1]) != 1):
            plain = tuple(order) == tuple(range(given.ndim))
            offset = value.storage_offset() - given.storage_offset()
            return Source(base, None if plain else tuple(order)), (offset, *value.stride())
    return Source(operand, None), _dense(list(value.shape), range(value.ndim))


def _shares(value: Tensor, base: Tensor) -> bool:
    return value.untyped_storage()._cdata == base.untyped_storage()._cdata


def _dense(shape: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """Offset and strides of a tensor whose dimensions lie in memory in that order."""
    strides: dict[int, Any] = {}
    step: Any = 1
    for dim in reversed(order):
        strides[dim] = step
        step = step * shape[dim]
    return (0, *(strides[dim] for dim in range(len(shape))))


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
