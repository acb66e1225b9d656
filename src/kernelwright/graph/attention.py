"""Attention written out (scores, mask, softmax, weighted sum) as the one operator that never stores the scores."""

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.node import Node, map_arg

from kernelwright.graph.node import append, expression, same_sizes, shape_of, tensor_of

aten = torch.ops.aten

_PRODUCTS = frozenset({aten.matmul.default, aten.bmm.default})
_HIDDEN_BELOW = -1e30
"""A finite fill value below this absorbs any score it is added to, so that adding it is filling with it."""
_FOLDED_NUMBERS = 1 << 22
"""The largest constant mask that is computed to be looked at."""


@dataclass(frozen=True)
class _Scores:
    """softmax's operand taken apart: query @ transposed_key * scale, then masks in the order they are applied."""

    query: Node
    transposed_key: Node
    scale: float
    masks: tuple["_Mask", ...]


@dataclass(frozen=True)
class _Mask:
    """A tensor added to the scores (`fill` None), or a condition under which a score is kept, else `fill`."""

    tensor: Node
    fill: float | None = None
    negated: bool = False


def attention(node: Node) -> Node | None:
    """softmax(q @ k.T * scale + mask) @ v is scaled_dot_product_attention(q, k, v, mask, scale).

    Equal but for rounding: scores are scaled before or after, and summed in blocks. NaN and infinity: a NaN in a score
    makes its row NaN in both; a row whose every score is hidden by -inf is NaN when written out but zero in torch's
    operator, so the mask given to it holds NaN for such rows (unless it is provably finite). Parameters used as a mask
    are taken to be finite. Values at hidden places are multiplied by zero in both, so that a NaN there is a NaN in
    both; a NaN score that masked_fill hid makes its row NaN here: NaNs may spread so, and none is lost.

    Refused: weights used by others, broadcast batches, more than one mask, masks under the scale, finite fill values
    that are not absorbed, negative scales.
    """
    if node.target not in _PRODUCTS:
        return None
    weights, value = cast(tuple[Node, Node], node.args)
    if weights.target is not aten._softmax.default or not _used_once(weights):
        return None
    scores, dim, widened = cast(tuple[Node, int, bool], weights.args)
    rank = len(shape_of(scores))
    if widened or dim % rank != rank - 1 or rank not in (3, 4) or len(shape_of(value)) != rank:
        return None
    found = _taken_apart(scores, 1.0)
    if found is None or len(found.masks) > 1 or not found.scale > 0:
        return None
    if not _fits(found, value, node):
        return None
    return _written(node, found, value)


def causal(node: Node) -> Node | None:
    """Attention under a constant mask that hides exactly the future is attention with is_causal.

    torch then skips hidden blocks. Equal for finite values; a NaN or infinity among the keys and values of the future
    no longer reaches the past, where written out it does (0 * NaN is NaN).
    """
    if node.target is not aten.scaled_dot_product_attention.default or len(node.args) != 4:
        return None
    query, key, value, mask = cast(tuple[Node, Node, Node, Node], node.args)
    length, width = shape_of(query)[-2], shape_of(key)[-2]
    shown = _constant(mask)
    if shown is None or not isinstance(length, int) or not isinstance(width, int):
        return None
    kept = shown if shown.dtype == torch.bool else shown == 0
    hidden = ~kept if shown.dtype == torch.bool else shown == -math.inf
    future = torch.ones(length, width, dtype=torch.bool).tril()
    if shown.dim() < 2 or shown.shape[-2:] != (length, width) or shown.numel() != length * width:
        return None
    if not torch.equal(kept.reshape(length, width), future) or not torch.equal(~kept, hidden):
        return None
    attend = aten.scaled_dot_product_attention.default
    return append(node.graph, attend, query, key, value, None, 0.0, True, **node.kwargs)


def _taken_apart(node: Node, scale: float) -> _Scores | None:
    """Reads the scores from softmax's operand down to the product."""
    if not _used_once(node):
        return None
    if node.target in _PRODUCTS:
        query, key = cast(tuple[Node, Node], node.args)
        query, query_scale = _unscaled(query)
        key, key_scale = _unscaled(key)
        return _Scores(query, key, scale * query_scale * key_scale, ())
    if node.target is aten.baddbmm.default and scale == 1.0:
        mask, query, key = cast(tuple[Node, Node, Node], node.args)
        if node.kwargs.get("beta", 1) != 1:
            return None
        alpha = float(cast(float, node.kwargs.get("alpha", 1)))
        return _Scores(query, key, alpha, (_Mask(mask),))
    factor = _factor(node)
    if factor is not None:
        return _taken_apart(cast(Node, node.args[0]), scale * factor)
    masked = _masked(node)
    if masked is None or scale != 1.0:
        return None
    below, mask = masked
    found = _taken_apart(below, 1.0)
    return found and _Scores(found.query, found.transposed_key, found.scale, (*found.masks, mask))


def _masked(node: Node) -> tuple[Node, _Mask] | None:
    """The scores below a mask, and the mask."""
    if node.target is aten.add.Tensor and not node.kwargs:
        left, right = node.args
        if isinstance(left, Node) and isinstance(right, Node):
            scores, mask = (left, right) if _leads_to_product(left) else (right, left)
            return (scores, _Mask(mask)) if same_sizes(shape_of(scores), shape_of(node)) else None
    if node.target in (aten.masked_fill.Scalar, aten.masked_fill.Tensor):
        scores, hidden, fill = cast(tuple[Node, Node, Any], node.args)
        number = _number(fill)
        return (scores, _Mask(hidden, number, negated=True)) if number is not None else None
    if node.target is aten.where.self:
        condition, yes, no = cast(tuple[Node, Any, Any], node.args)
        for scores, fill, negated in ((yes, _number(no), False), (no, _number(yes), True)):
            if fill is not None and isinstance(scores, Node) and same_sizes(shape_of(scores), shape_of(node)):
                return scores, _Mask(condition, fill, negated)
    return None


def _leads_to_product(node: Node) -> bool:
    while node.target not in _PRODUCTS:
        if node.op != "call_function" or not isinstance(node.args[0], Node) or _factor(node) is None:
            return False
        node = node.args[0]
    return True


def _factor(node: Node) -> float | None:
    """The number that the node multiplies its operand by, dtype and shape kept."""
    if node.target not in (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar) or node.kwargs:
        return None
    x, number = node.args
    number = _number(number)
    if not isinstance(x, Node) or number is None or number == 0 or not math.isfinite(number):
        return None
    if tensor_of(x).dtype != tensor_of(node).dtype or not same_sizes(shape_of(x), shape_of(node)):
        return None
    return number if node.target in (aten.mul.Tensor, aten.mul.Scalar) else 1 / number


def _number(value: Any) -> float | None:
    """A Python number, or a node that is a constant scalar tensor made in the graph."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, Node) and value.target in (aten.scalar_tensor.default, aten.full.default):
        number = value.args[-1] if value.target is aten.full.default else value.args[0]
        return float(number) if isinstance(number, (int, float)) else None
    return None


def _unscaled(node: Node) -> tuple[Node, float]:
    """Below multiplications by numbers and the views over them, where that is possible."""
    factor = _factor(node)
    if factor is not None:
        return cast(Node, node.args[0]), factor
    if node.target is aten.permute.default and isinstance(node.args[0], Node):
        factor = _factor(node.args[0])
        if factor is not None:
            source = cast(Node, node.args[0].args[0])
            return append(node.graph, aten.permute.default, source, node.args[1]), factor
    return node, 1.0


def _fits(found: _Scores, value: Node, node: Node) -> bool:
    """Whether shapes and dtypes are those of plain attention."""
    query, key = shape_of(found.query), shape_of(found.transposed_key)
    values, result = shape_of(value), shape_of(node)
    if len(query) != len(result) or len(key) != len(result):
        return False
    batches = [shape[:-2] for shape in (query, key, values)]
    if not all(same_sizes(batch, result[:-2]) for batch in batches):
        return False
    if expression(query[-1]) != expression(key[-2]) or expression(key[-1]) != expression(values[-2]):
        return False
    dtypes = {tensor_of(item).dtype for item in (found.query, found.transposed_key, value, node)}
    if len(dtypes) != 1 or not tensor_of(node).dtype.is_floating_point:
        return False
    for mask in found.masks:
        shape = shape_of(mask.tensor)
        kind = tensor_of(mask.tensor).dtype
        if kind != (tensor_of(node).dtype if mask.fill is None else torch.bool):
            return False
        if mask.fill is not None and not mask.fill < _HIDDEN_BELOW:
            return False
        scores = (*result[:-1], key[-1])
        aligned = zip(reversed(shape), reversed(scores), strict=False)
        if len(shape) > len(scores) or not all(expression(a) in (1, expression(b)) for a, b in aligned):
            return False
    return True


def _written(node: Node, found: _Scores, value: Node) -> Node:
    graph = node.graph
    rank = len(shape_of(node))
    last = [*range(rank - 2), rank - 1, rank - 2]
    query, key = found.query, append(graph, aten.permute.default, found.transposed_key, last)
    mask = _mask_tensor(node, found, rank) if found.masks else None
    if rank == 3:  # torch's fused kernels want heads: one each
        query, key, value = (append(graph, aten.unsqueeze.default, item, 1) for item in (query, key, value))
    size = expression(shape_of(query)[-1])
    usual = isinstance(size, int) and math.isclose(found.scale, size**-0.5, rel_tol=1e-6)
    arguments = (query, key, value) if mask is None else (query, key, value, mask)
    scale = {} if usual else {"scale": found.scale}
    attended = append(graph, aten.scaled_dot_product_attention.default, *arguments, **scale)
    return append(graph, aten.squeeze.dims, attended, [1]) if rank == 3 else attended


def _mask_tensor(node: Node, found: _Scores, rank: int) -> Node:
    """The mask as torch's operator takes it: added, two- or four-dimensional, NaN for rows that hide everything."""
    graph = node.graph
    (mask,) = found.masks
    tensor = mask.tensor
    dtype = tensor_of(node).dtype
    lowest = mask.fill
    if mask.fill is not None:
        zero = _scalar(node, 0.0, dtype)
        fill = _scalar(node, mask.fill, dtype)
        chosen = (tensor, fill, zero) if mask.negated else (tensor, zero, fill)
        tensor = append(graph, aten.where.self, *chosen)
    if not (_is_finite(tensor) or _hides_no_row(tensor) or (lowest is not None and math.isfinite(lowest))):
        hidden = append(graph, aten.eq.Scalar, tensor, -math.inf)
        shown = append(graph, aten.logical_not.default, hidden)
        some = append(graph, aten.any.dim, shown, -1, True)
        tensor = append(graph, aten.where.self, some, tensor, _scalar(node, math.nan, dtype))
    dims = len(shape_of(tensor))
    if rank == 3 and dims == 3:
        return append(graph, aten.unsqueeze.default, tensor, 1)
    while dims < 2 or dims == 3:
        tensor = append(graph, aten.unsqueeze.default, tensor, 0)
        dims += 1
    return tensor


def _scalar(node: Node, number: float, dtype: torch.dtype) -> Node:
    """A scalar tensor beside `node`, made in the graph."""
    scalar = node.graph.call_function(
        aten.scalar_tensor.default, (number,), {"dtype": dtype, "device": tensor_of(node).device}
    )
    with cast(Any, tensor_of(node)).fake_mode:
        scalar.meta["val"] = torch.scalar_tensor(number, dtype=dtype, device=tensor_of(node).device)
    return scalar


def _is_finite(node: Node) -> bool:
    """Whether the node's values are finite for certain."""
    if node.target is aten.where.self:
        return all(_is_finite(item) if isinstance(item, Node) else False for item in node.args[1:])
    number = _number(node)
    if number is not None:
        return math.isfinite(number)
    if node.target in (aten.expand.default, aten.unsqueeze.default, aten.view.default, aten.slice.Tensor):
        return _is_finite(cast(Node, node.args[0]))
    if node.op == "placeholder" and "content" not in node.meta:
        return bool(node.meta.get("parameter"))
    known = _constant(node)
    return known is not None and bool(torch.isfinite(known).all())


def _hides_no_row(node: Node) -> bool:
    """Whether a mask shows something in every row for certain."""
    known = _constant(node)
    return known is not None and not bool((known == -math.inf).all(-1).any())


def _constant(node: Node) -> Tensor | None:
    """The node's value, where it depends on constants alone and is not too large."""
    needed: dict[Node, None] = {}
    pending = [node]
    while pending:
        item = pending.pop()
        if item in needed:
            continue
        value = item.meta.get("val")
        if "content" in item.meta:
            needed[item] = None
            continue
        if item.op != "call_function" or not isinstance(value, Tensor) or len(needed) > 32:
            return None
        if any(not isinstance(size, int) for size in value.shape) or value.numel() > _FOLDED_NUMBERS:
            return None
        needed[item] = None
        pending += item.all_input_nodes
    results: dict[Node, Any] = {}
    for item in node.graph.nodes:
        if item in needed and "content" in item.meta:
            results[item] = item.meta["content"]
        elif item in needed:
            arguments = map_arg((item.args, dict(item.kwargs)), results.__getitem__)
            results[item] = cast(Any, item.target)(*arguments[0], **arguments[1])
    return results[node]


def _used_once(node: Node) -> bool:
    return len(node.users) == 1
