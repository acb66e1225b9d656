"""Means and average pools of convolutions: the input is summed, or the window widened, before the products."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.algebra.affine import Affine, Convolution, affine_of
from kernelwright.graph.algebra.weights import narrow, prepared, shaped, summed, times
from kernelwright.graph.node import append, shape_of

aten = torch.ops.aten

LEAST_GAIN = 0.75
"""Products that a merged window may take, of those without: a larger window is less to a library's liking."""
_POOLS = {aten.avg_pool2d.default: 2, aten.avg_pool3d.default: 3}


@dataclass(frozen=True)
class _Run:
    """The places start, start + step, ... before stop."""

    start: int
    stop: int
    step: int = 1


def mean_of_convolution(node: Node) -> Node | None:
    """The mean or sum over places of a convolution: each tap sees the sum of the places of x that it passes over.

    So x is summed first, once for each tap with places of its own (at the edges, and between strides), and the
    convolution is one of sums. Every product that was there is there, none else: NaN and infinity come out where they
    did, but that infinite sums which met as NaN may be infinite.
    """
    if node.target not in (aten.sum.dim_IntList, aten.mean.dim) or node.kwargs or len(node.args) < 2:
        return None
    y, dims = cast(tuple[Any, Any], node.args[:2])
    keep = len(node.args) > 2 and bool(node.args[2])
    chain = affine_of(y) if isinstance(y, Node) and len(y.users) == 1 and dims else None
    if chain is None or not isinstance(chain.map, Convolution) or chain.map.groups != 1:
        return None
    conv, rank = chain.map, len(shape_of(y))
    axes = sorted(dim % rank - 2 for dim in dims)
    if axes[0] < 0:
        return None
    runs = {axis: _runs(conv, axis) for axis in axes}
    if any(run.stop <= run.start for found in runs.values() for run in found):
        return None
    same = {axis + 2: found[0] for axis, found in runs.items() if len(set(found)) == 1}
    weight = summed(chain.scaled_weight(), list(same), True)
    x = _sum(conv.x, same) if same else conv.x
    for axis in axes:
        if axis + 2 not in same:
            x = append(node.graph, aten.cat.default, _sums(x, axis + 2, runs[axis]), axis + 2)
    count = math.prod(int(shape_of(y)[axis + 2]) for axis in axes)
    mean = node.target is aten.mean.dim
    bias = chain.shifted_bias()
    if bias is not None:
        bias = narrow(times(bias, 1.0 if mean else float(count)), conv.weight)
    made = _contracted(conv, axes, x, times(weight, 1 / count if mean else 1.0), bias)
    return append(node.graph, aten.view.default, made, list(shape_of(node))) if keep else made


def pooled_convolution(node: Node) -> Node | None:
    """An average pool of a convolution is a convolution with a larger window and stride: averages of shifted weights.

    Of a transposed convolution whose stride divides the pool's it is an ordinary one. Only where that takes fewer
    products, and where every tap of the new window had a product before: of what no window saw nothing is read.
    """
    rank = _POOLS.get(node.target)  # type: ignore[arg-type]
    y = node.args[0] if node.args else None
    chain = affine_of(y) if rank and isinstance(y, Node) and len(y.users) == 1 else None
    if rank is None or chain is None or not isinstance(chain.map, Convolution) or not isinstance(y, Node):
        return None
    given = _pool(node, rank)
    if given is None:
        return None
    window, stride = given
    merged = _transposed if chain.map.transposed else _ordinary
    return merged(node, chain, window, stride)


def _pool(node: Node, rank: int) -> tuple[list[int], list[int]] | None:
    """Window and stride of an average pool without padding."""
    args = cast(tuple[Any, ...], node.args)
    given: list[Any] = [*args[1:], *([], [0], False, True, None)[len(args) - 2 :]]
    window, stride, padding, ceil, _, divisor = given
    window, stride = list(window), list(stride or window)
    window, stride = (part * rank if len(part) == 1 else part for part in (window, stride))
    return None if ceil or divisor or any(padding) else (window, stride)


def _ordinary(node: Node, chain: Affine, window: Sequence[int], stride: Sequence[int]) -> Node | None:
    conv = cast(Convolution, chain.map)
    if any(gap != 1 for gap in conv.dilation) or any(s > k for s, k in zip(conv.stride, conv.taps, strict=True)):
        return None
    taps = [k + (p - 1) * s for k, p, s in zip(conv.taps, window, conv.stride, strict=True)]
    if math.prod(taps) > LEAST_GAIN * math.prod(stride) * math.prod(conv.taps):
        return None
    weight = chain.scaled_weight()
    for axis, (k, p, s) in enumerate(zip(conv.taps, window, conv.stride, strict=True)):
        runs = []
        for tap in range(taps[axis]):  # tap = place in the window + s * place in the pool
            last = min(tap // s, p - 1)
            first = max(0, -((k - 1 - tap) // s))
            runs.append(_Run(tap - last * s, tap - first * s + 1, s))
        weight = _tapped(weight, axis + 2, runs)
    steps = [s * q for s, q in zip(conv.stride, stride, strict=True)]
    return _merged(node, chain, weight, 1 / math.prod(window), steps, conv.padding, conv.groups)


def _transposed(node: Node, chain: Affine, window: Sequence[int], stride: Sequence[int]) -> Node | None:
    conv = cast(Convolution, chain.map)
    if conv.groups != 1 or list(window) != list(stride) or any(gap != 1 for gap in conv.dilation):
        return None
    if any(p % s for p, s in zip(window, conv.stride, strict=True)):
        return None
    weight, before, taps = chain.scaled_weight(), [], []
    for axis, (k, p, s, margin) in enumerate(zip(conv.taps, window, conv.stride, conv.padding, strict=True)):
        # Output o = m p + q sees input i by the tap o + margin - s i: of pool m and j = (p / s) m - i the taps
        # s j + margin + q, q < p.
        last, first = (k - 1 - margin) // s, -((margin + p - 1) // s)
        runs = [_Run(max(0, s * j + margin), min(k, s * j + margin + p)) for j in range(last, first - 1, -1)]
        if last < 0 or any(run.stop <= run.start for run in runs):
            return None
        weight = _tapped(weight, axis + 2, runs)
        before.append(last)
        taps.append(len(runs))
    if math.prod(taps) > LEAST_GAIN * math.prod(window) * math.prod(conv.taps) / math.prod(conv.stride):
        return None
    weight = prepared(weight, aten.permute.default, weight, [1, 0, *range(2, len(taps) + 2)])
    steps = [p // s for p, s in zip(window, conv.stride, strict=True)]
    return _merged(node, chain, weight, 1 / math.prod(window), steps, before, 1)


def _merged(
    node: Node,
    chain: Affine,
    weight: Node,
    factor: float,
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
) -> Node | None:
    """The convolution, cut to the outputs that there were; None where it has fewer."""
    conv = cast(Convolution, chain.map)
    bias = chain.shifted_bias()
    rank = len(stride)
    made = append(
        node.graph,
        aten.convolution.default,
        conv.x,
        narrow(times(weight, factor), conv.weight),
        None if bias is None else narrow(bias, conv.weight),
        *(list(stride), list(padding), [1] * rank, False, [0] * rank, groups),
    )
    for dim, (size, wanted) in enumerate(zip(shape_of(made), shape_of(node), strict=True)):
        if dim < 2 or size == wanted:
            continue
        if size < wanted:
            return None
        made = append(node.graph, aten.slice.Tensor, made, dim, 0, wanted)
    return made


def _runs(conv: Convolution, axis: int) -> list[_Run]:
    """For each tap the places of x that some output meets by it."""
    stride, before, gap = conv.stride[axis], conv.padding[axis], conv.dilation[axis]
    size, made = int(shape_of(conv.x)[axis + 2]), int(shape_of(conv.node)[axis + 2])
    runs = []
    for tap in range(conv.taps[axis]):
        off = before - tap * gap
        if conv.transposed:  # output = i stride - off
            runs.append(_Run(max(0, -(-off // stride)), min(size - 1, (made - 1 + off) // stride) + 1))
        else:  # i = output stride - off
            first, last = max(0, -(-off // stride)), min(made - 1, (size - 1 + off) // stride)
            runs.append(_Run(first * stride - off, last * stride - off + 1, stride))
    return runs


def _sum(x: Node, runs: Mapping[int, _Run]) -> Node:
    """The sum over a run of places of each dimension, which stays with size one."""
    for dim, run in runs.items():
        if (run.start, run.stop, run.step) != (0, shape_of(x)[dim], 1):
            x = append(x.graph, aten.slice.Tensor, x, dim, run.start, run.stop, run.step)
    return append(x.graph, aten.sum.dim_IntList, x, list(runs), True)


def _sums(x: Node, dim: int, runs: Sequence[_Run]) -> list[Node]:
    """One sum a run; what runs of neighbouring places have in common is summed once."""
    common = _Run(max(run.start for run in runs), min(run.stop for run in runs))
    if any(run.step != 1 for run in runs) or common.stop <= common.start:
        return [_sum(x, {dim: run}) for run in runs]
    inner = _sum(x, {dim: common})
    found = []
    for run in runs:
        total = inner
        for rest in (_Run(run.start, common.start), _Run(common.stop, run.stop)):
            if rest.stop > rest.start:
                total = append(x.graph, aten.add.Tensor, total, _sum(x, {dim: rest}))
        found.append(total)
    return found


def _tapped(weight: Node, dim: int, runs: Sequence[_Run]) -> Node:
    """New taps along a dimension, each the sum of a run of old ones."""
    taps = []
    for run in runs:
        part = prepared(weight, aten.slice.Tensor, weight, dim, run.start, run.stop, run.step)
        taps.append(summed(part, [dim], True))
    return prepared(weight, aten.cat.default, taps, dim)


def _contracted(conv: Convolution, axes: Sequence[int], x: Node, weight: Node, bias: Node | None) -> Node:
    """Products over channels and the taps of `axes`, where x and weight match place by place; a convolution over the
    other axes."""
    rest = [axis for axis in range(len(conv.taps)) if axis not in axes]
    outputs, inputs = (1, 0) if conv.transposed else (0, 1)
    order = [dim + 2 for dim in axes]
    moved = [dim + 2 for dim in rest]
    depth = int(shape_of(x)[1]) * math.prod(int(shape_of(x)[dim]) for dim in order)
    x = append(x.graph, aten.permute.default, x, [0, 1, *order, *moved])
    x = append(x.graph, aten.clone.default, x, memory_format=torch.contiguous_format)
    x = append(x.graph, aten.view.default, x, [shape_of(x)[0], depth, *shape_of(x)[2 + len(axes) :]])
    kernel = [int(shape_of(weight)[dim]) for dim in moved]
    if not rest or not conv.transposed:
        weight = prepared(weight, aten.permute.default, weight, [outputs, inputs, *order, *moved])
        weight = shaped(weight, [conv.channels, depth, *kernel])
    else:
        weight = prepared(weight, aten.permute.default, weight, [inputs, *order, outputs, *moved])
        weight = shaped(weight, [depth, conv.channels, *kernel])
    given = narrow(weight, conv.weight)
    if not rest:
        return append(x.graph, aten.linear.default, x, given, *([] if bias is None else [bias]))
    numbers = ([part[axis] for axis in rest] for part in (conv.stride, conv.padding, conv.dilation))
    added = [conv.output_padding[axis] for axis in rest]
    return append(x.graph, aten.convolution.default, x, given, bias, *numbers, conv.transposed, added, 1)
