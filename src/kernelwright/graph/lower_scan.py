"""Scans as kernels: cumsum and cumprod along any axis, from either end, with or without the element itself, masked."""

import operator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_filled import FilledCall, Maker, call_of, product, scalar_of
from kernelwright.graph.node import same_size, same_sizes, shape_of, tensor_of
from kernelwright.loops import ScalarType
from kernelwright.loops.cpp import MEMORY

aten = torch.ops.aten

_JOINS: dict[Any, str] = {aten.cumsum.default: "scan::Sum", aten.cumprod.default: "scan::Product"}


@dataclass(frozen=True)
class _Scan:
    """A scan in the graph, found from its last node."""

    x: Node
    dim: int
    join: str
    reverse: bool = False
    exclusive: bool = False
    covers: tuple[Node, ...] = ()


def _plain(node: Node) -> FilledCall | None:
    found = _scan_of(node)
    return None if found is None else _call(node, found)


def _flipped(node: Node) -> FilledCall | None:
    """flip(scan(flip(x))): the scan from the other end."""
    inner = _inner(node.args[0])
    found = _scan_of(inner) if inner is not None else None
    if inner is None or found is None:
        return None
    first = _inner(found.x)
    dims = {found.dim}
    if first is None or first.target is not aten.flip.default or _flips(first) != dims or _flips(node) != dims:
        return None
    x = cast(Node, first.args[0])
    return _call(node, _Scan(x, found.dim, found.join, True, False, (inner, first)))


def _shifted(node: Node) -> FilledCall | None:
    """cat([zeros, scan(x without its last)]): the scan of what lies before."""
    parts, dim = node.args[0], cast(int, (*node.args, 0)[1])
    if not isinstance(parts, (list, tuple)) or len(parts) != 2 or not all(isinstance(part, Node) for part in parts):
        return None
    head, inner = parts
    found = _scan_of(inner) if isinstance(inner, Node) and len(inner.users) == 1 else None
    if found is None or not isinstance(head, Node) or found.dim != dim % len(shape_of(node)):
        return None
    cut, dim = found.x, found.dim
    if cut.target is not aten.slice.Tensor or not _is_filled(head, 0 if found.join.endswith("Sum") else 1):
        return None
    x, along, start, *end = cast(tuple[Any, ...], (*cut.args, *(0, 0)[len(cut.args) - 1 :]))
    if along != dim or start != 0 or len(end) > 2 or end[1:] not in ([], [1]) or not isinstance(x, Node):
        return None
    if not same_sizes(shape_of(x), shape_of(node)) or not same_size(shape_of(cut)[dim] + 1, shape_of(x)[dim]):
        return None
    return _call(node, _Scan(x, dim, found.join, False, True, (cast(Node, inner),)))


def _scan_of(node: Any) -> _Scan | None:
    if not isinstance(node, Node) or node.target not in _JOINS or node.kwargs or len(node.args) != 2:
        return None
    x, dim = node.args
    if not isinstance(x, Node) or not isinstance(dim, int) or not shape_of(x):
        return None
    return _Scan(x, dim % len(shape_of(x)), _JOINS[node.target])


def _call(node: Node, scan: _Scan) -> FilledCall | None:
    shape, dim = shape_of(scan.x), scan.dim
    sizes = [product(shape[:dim]), shape[dim], product(shape[dim + 1 :])]
    operands, function = _masked(scan) or ([scan.x], "along")
    given, made = scalar_of(operands[0]), scalar_of(node)
    if given is None or made is None or (made.floating and made is not given):
        return None
    types = [MEMORY[made], "uint8" if given is ScalarType.BOOL else MEMORY[given], scan.join]
    flags = ["true" if flag else "false" for flag in (scan.reverse, scan.exclusive)]
    covers = [*scan.covers, *([scan.x] if function == "masked" else [])]
    return call_of(
        "scan", f"scan::{function}<{', '.join([*types, *flags])}>", node, [node], operands, sizes, covers=covers
    )


def _masked(scan: _Scan) -> tuple[list[Node], str] | None:
    """x and mask of a product that is used by the scan alone."""
    node = scan.x
    if node.target is not aten.mul.Tensor or len(node.users) != 1 or len(node.args) != 2:
        return None
    left, right = node.args
    if not isinstance(left, Node) or not isinstance(right, Node):
        return None
    x, mask = (left, right) if tensor_of(right).dtype is torch.bool else (right, left)
    same = same_sizes(shape_of(x), shape_of(node)) and same_sizes(shape_of(mask), shape_of(node))
    if not same or tensor_of(mask).dtype is not torch.bool or tensor_of(x).dtype != tensor_of(node).dtype:
        return None
    return [x, mask], "masked"


def _inner(node: Any) -> Node | None:
    """An operand that nobody else uses."""
    return node if isinstance(node, Node) and node.op == "call_function" and len(node.users) == 1 else None


def _flips(node: Node) -> set[int]:
    rank = len(shape_of(node))
    return {dim % rank for dim in cast(list[int], node.args[1])}


def _is_filled(node: Node, number: int) -> bool:
    if node.target is operator.getitem or not isinstance(node.meta.get("val"), Tensor):
        return False
    places = {aten.full_like.default: 1, aten.full.default: 1}
    return node.target in places and node.args[places[node.target]] == number  # type: ignore[index]


SCANS: dict[Any, Maker] = {
    aten.cumsum.default: _plain,
    aten.cumprod.default: _plain,
    aten.flip.default: _flipped,
    aten.cat.default: _shifted,
}
