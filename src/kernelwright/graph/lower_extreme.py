"""Extremes with their places as kernels: argmax and argmin, and max and min along an axis."""

import operator
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.lower_filled import FilledCall, Maker, call_of, product, scalar_of
from kernelwright.graph.node import shape_of
from kernelwright.loops import ScalarType
from kernelwright.loops.cpp import MEMORY

aten = torch.ops.aten

_LARGEST = {aten.argmax.default, aten.max.dim}


def _along(node: Node, dim: int | None) -> tuple[list[Any], str] | None:
    """Sizes around the axis, and the compile-time arguments."""
    x = cast(Node, node.args[0])
    type, shape = scalar_of(x), shape_of(x)
    if type is None or type is ScalarType.BOOL or any(size == 0 for size in shape if isinstance(size, int)):
        return None
    if dim is None or not shape:
        sizes = [1, product(shape), 1]
    else:
        dim %= len(shape)
        sizes = [product(shape[:dim]), shape[dim], product(shape[dim + 1 :])]
    return sizes, f"<{MEMORY[type]}, {'true' if node.target in _LARGEST else 'false'}>"


def _place(node: Node) -> FilledCall | None:
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    found = _along(node, cast(int | None, dim))
    if found is None:
        return None
    x = cast(tuple[Any, ...], node.args)[0]
    return call_of("extreme", f"extreme::places{found[1]}", node, [node], [x], found[0])


def _both(node: Node) -> FilledCall | None:
    takers: list[Any] = [user for user in node.users if user.target is operator.getitem]
    results: dict[int, Node] = {user.args[1]: user for user in takers}
    found = _along(node, cast(int, node.args[1]))
    if found is None or not results or len(results) != len(node.users):
        return None
    wanted = [results[place] for place in sorted(results)]
    function = "both" if len(wanted) == 2 else ("values", "places")[min(results)]
    x = cast(Node, node.args[0])
    return call_of("extreme", f"extreme::{function}{found[1]}", node, wanted, [x], found[0], covers=wanted)


EXTREMES: dict[Any, Maker] = {
    aten.argmax.default: _place,
    aten.argmin.default: _place,
    aten.max.dim: _both,
    aten.min.dim: _both,
}
