"""Pooling as kernels: max and average over windows, and adaptive ones, in one to three dimensions."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_filled import FilledCall, Maker, call_of, only_result, product, scalar_of
from kernelwright.graph.node import shape_of
from kernelwright.loops.cpp import MEMORY

aten = torch.ops.aten

LARGEST_WINDOW = 32
"""Along the width: the window is written out."""
LARGEST_REACH = 1024
"""What a window spans along the width, and how far windows may stand apart: the line lies on the stack."""
LARGEST_STRIDE = 32
LARGEST_LINE = 4096
"""Of a plane that is shared out (templates/pooling.hpp)."""
_INSIDE, _PADDED, _GIVEN = 2, 1, 2


def _listed(value: Any, rank: int, default: Sequence[int]) -> list[int]:
    """One number for each dimension."""
    numbers = [value] if isinstance(value, int) else list(value or default)
    return numbers * rank if len(numbers) == 1 else numbers


def _arguments(node: Node, defaults: Sequence[Any]) -> list[Any]:
    """What follows the operand, with the defaults of what is not given."""
    return [*node.args[1:], *defaults[len(node.args) - 1 :]]


def _windows(node: Node, result: Node | None, rank: int, join: str, numbers: Sequence[Any], average: int) -> Any:
    window, stride, before, dilation = (list(part) for part in numbers)
    x = node.args[0]
    type = scalar_of(cast(Node, x))
    if result is None or type is None or not type.floating or not isinstance(result.meta["val"], Tensor):
        return None
    if window[-1] > LARGEST_WINDOW or (window[-1] - 1) * dilation[-1] > LARGEST_REACH or stride[-1] > LARGEST_STRIDE:
        return None
    if any(not isinstance(number, int) for part in (window, stride, before, dilation) for number in part):
        return None
    ones = [1] * (3 - rank)
    shape, made = shape_of(cast(Node, x)), shape_of(result)
    sizes = [
        product(shape[:-rank]),
        *(*ones, *shape[-rank:]),
        *(*ones, *made[-rank:]),
        *(*ones, *window)[:2],
        *(*ones, *stride)[:2],
        *(*[0] * (3 - rank), *before),
        *(*ones, *dilation)[:2],
    ]
    call = f"pooling::windows<{MEMORY[type]}, pooling::{join}, {window[-1]}, {stride[-1]}, {dilation[-1]}, {average}>"
    return call_of(
        "pooling", call, node, [result], [cast(Node, x)], sizes, covers=[result] if result is not node else ()
    )


def _max_pool(rank: int) -> Maker:
    def make(node: Node) -> FilledCall | None:
        window, stride, before, dilation, _ = _arguments(node, (None, [], 0, 1, False))
        window = _listed(window, rank, ())
        numbers = (window, _listed(stride, rank, window), _listed(before, rank, ()), _listed(dilation, rank, ()))
        return _windows(node, only_result(node), rank, "Largest", numbers, 0)

    return make


def _avg_pool(rank: int) -> Maker:
    def make(node: Node) -> FilledCall | None:
        window, stride, before, _, padded, divisor = _arguments(node, (None, [], 0, False, True, None))
        window = _listed(window, rank, ())
        numbers = (window, _listed(stride, rank, window), _listed(before, rank, ()), [1] * rank)
        average = _GIVEN + divisor if divisor else _PADDED if padded else _INSIDE
        return None if average < 1 else _windows(node, node, rank, "Total", numbers, average)

    return make


def _adaptive(rank: int, join: str, average: bool) -> Maker:
    def make(node: Node) -> FilledCall | None:
        x, result = cast(Node, node.args[0]), node if average else only_result(node)
        type = scalar_of(x)
        if result is None or type is None or not type.floating:
            return None
        shape, made = shape_of(x), shape_of(result)
        if not all(isinstance(size, int) and size > 0 for size in (*shape[-rank:], *made[-rank:])):
            return None
        if shape[-1] > LARGEST_LINE:
            return None
        ones = [1] * (3 - rank)
        sizes = [product(shape[:-rank]), *ones, *shape[-rank:], *ones, *made[-rank:]]
        call = f"pooling::shares<{MEMORY[type]}, pooling::{join}, {'true' if average else 'false'}>"
        return call_of("pooling", call, node, [result], [x], sizes, covers=[] if average else [result])

    return make


POOLING: dict[Any, Maker] = {
    aten.max_pool2d_with_indices.default: _max_pool(2),
    aten.max_pool3d_with_indices.default: _max_pool(3),
    aten.avg_pool1d.default: _avg_pool(1),
    aten.avg_pool2d.default: _avg_pool(2),
    aten.avg_pool3d.default: _avg_pool(3),
    aten._adaptive_avg_pool2d.default: _adaptive(2, "Total", True),
    aten._adaptive_avg_pool3d.default: _adaptive(3, "Total", True),
    aten.adaptive_max_pool2d.default: _adaptive(2, "Largest", False),
    aten.adaptive_max_pool3d.default: _adaptive(3, "Largest", False),
}
