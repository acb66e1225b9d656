"""Chains of views and copies taken apart: which part of the source stands in which dimension of the result.

A source's dimensions are split into atoms; a chain of views, permutations, selections and copies is the list of the
result's dimensions as groups of atoms. So every chain has one shortest spelling: split, select, permute, merge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import sympy
import torch
from torch import fx
from torch.fx.node import Node

from kernelwright.graph.node import append, evaluate, expression, same_sizes, shape_of

aten = torch.ops.aten

VIEWING = frozenset(
    {
        aten.view.default,
        aten.permute.default,
        aten.unsqueeze.default,
        aten.squeeze.dims,
        aten.select.int,
    }
)
"""The views that a movement can hold."""


@dataclass(frozen=True, eq=False)
class Atom:
    """A part of a dimension that no chain has cut so far; one and the same in source and result."""

    size: Any
    """An integer or SymInt, never 1."""
    index: int | None = None
    """The only place that is selected, if so."""


@dataclass(frozen=True)
class Movement:
    """Values of `source` in other places: none is computed, none is doubled.

    Dimensions of size one are groups without atoms.
    """

    source: Node
    atoms: tuple[Atom, ...]
    """In the source's order: the product of their sizes is the source's."""
    dims: tuple[tuple[Atom, ...], ...]
    """The result's dimensions: each a row of atoms, outermost first."""
    copies: tuple[Node, ...] = ()
    """The copies that the chain makes on the way."""
    calls: int = 0
    """How many calls the chain has."""

    def shape(self) -> list[Any]:
        """The result's sizes."""
        return [_product(group) for group in self.dims]


def read(node: Node, shown: set[Node]) -> Movement:
    """The longest chain that ends in `node`. Copies among `shown`, whose memory a caller may hold, begin a chain."""
    if node.op == "call_function" and node.args and isinstance(node.args[0], Node):
        if node.target in VIEWING:
            before = read(node.args[0], shown)
            after = _after(before, node)
            if after is not None:
                return replace(after, calls=before.calls + 1)
        if is_copy(node) and node not in shown:
            before = read(node.args[0], shown)
            return replace(before, copies=(*before.copies, node), calls=before.calls + 1)
    atoms = [Atom(size) for size in shape_of(node)]
    dims = tuple(() if expression(atom.size) == 1 else (atom,) for atom in atoms)
    return Movement(node, tuple(atom for group in dims for atom in group), dims)


def is_copy(node: Node) -> bool:
    """Whether the node is a copy that changes nothing but the layout."""
    return node.target is aten.clone.default


class Written:
    """A movement spelled out at the graph's insertion point: split, select, permute, merge."""

    def __init__(self, graph: fx.Graph, movement: Movement) -> None:
        self.graph = graph
        self.made: list[Node] = []
        """All calls that it took."""
        node = movement.source
        order = [atom for group in movement.dims for atom in group]
        if order != list(movement.atoms):
            rows = _rows(movement)
            node = self._viewed(node, [_product(row) for row in rows])
            for place in reversed(range(len(rows))):
                if rows[place][0].index is not None:
                    node = self._add(aten.select.int, node, place, rows[place][0].index)
                    del rows[place]
            turned = sorted(range(len(rows)), key=lambda place: order.index(rows[place][0]))
            if turned != list(range(len(rows))):
                node = self._add(aten.permute.default, node, turned)
        self.node = self._viewed(node, movement.shape())

    @property
    def copies(self) -> int:
        """How many copies the strides of the source made necessary."""
        return sum(is_copy(node) for node in self.made)

    def undo(self) -> None:
        """Takes the calls out of the graph again."""
        for node in reversed(self.made):
            self.graph.erase_node(node)

    def _add(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        self.made.append(append(self.graph, target, *args, **kwargs))
        return self.made[-1]

    def _viewed(self, node: Node, sizes: Sequence[Any]) -> Node:
        if same_sizes(shape_of(node), sizes):
            return node
        if not viewable(node, sizes):
            node = self._add(aten.clone.default, node, memory_format=torch.contiguous_format)
        return self._add(aten.view.default, node, list(sizes))


def viewable(node: Node, sizes: Sequence[Any]) -> bool:
    """Whether the node's strides allow other sizes without a copy."""
    try:
        evaluate(aten.view.default, (node, list(sizes)), {})
    except (ValueError, RuntimeError):
        return False
    return True


def _rows(movement: Movement) -> list[list[Atom]]:
    """The source's atoms in rows that stay together in the result."""
    following = {(a, b) for group in movement.dims for a, b in pairwise(group)}
    rows: list[list[Atom]] = []
    for atom in movement.atoms:
        if rows and (rows[-1][-1], atom) in following:
            rows[-1].append(atom)
        else:
            rows.append([atom])
    return rows


def _after(before: Movement, node: Node) -> Movement | None:
    """The movement with one more call."""
    dims = list(before.dims)
    rank = len(dims)
    if node.target is aten.permute.default:
        return replace(before, dims=tuple(dims[dim % rank] for dim in cast(list[int], node.args[1])))
    if node.target is aten.unsqueeze.default:
        dims.insert(cast(int, node.args[1]) % (rank + 1), ())
        return replace(before, dims=tuple(dims))
    if node.target is aten.squeeze.dims:
        gone = {dim % rank for dim in cast(list[int], node.args[1]) if not dims[dim % rank]}
        return replace(before, dims=tuple(group for dim, group in enumerate(dims) if dim not in gone))
    if node.target is aten.select.int:
        dim, index = cast(tuple[int, Any], node.args[1:])
        group = dims.pop(dim % rank)
        if not isinstance(index, int) or len(group) > 1 or (group and not isinstance(group[0].size, int)):
            return None
        atoms = list(before.atoms)
        if group:
            atoms[atoms.index(group[0])] = Atom(group[0].size, index % group[0].size)
        return replace(before, atoms=tuple(atoms), dims=tuple(dims))
    return _regrouped(before, shape_of(node))


def _regrouped(before: Movement, sizes: Sequence[Any]) -> Movement | None:
    """The movement's values, in row-major order, under other sizes; atoms are cut where whole numbers come of it."""
    atoms = list(before.atoms)
    pending = [atom for group in before.dims for atom in group]
    dims: list[tuple[Atom, ...]] = []
    for size in sizes:
        group: list[Atom] = []
        left = sympy.sympify(expression(size))
        while left != 1:
            if not pending:
                return None
            atom = pending.pop(0)
            share = sympy.cancel(left / expression(atom.size))
            if not _is_whole(share):
                if not (left.is_Integer and isinstance(atom.size, int) and atom.size % int(left) == 0):
                    return None
                outer, inner = Atom(int(left)), Atom(atom.size // int(left))
                place = atoms.index(atom)
                atoms[place : place + 1] = [outer, inner]
                pending.insert(0, inner)
                atom, share = outer, sympy.Integer(1)
            group.append(atom)
            left = share
        dims.append(tuple(group))
    return None if pending else replace(before, atoms=tuple(atoms), dims=tuple(dims))


def _is_whole(size: Any) -> bool:
    """Whether a quotient of sizes is a product of sizes again."""
    return size.is_Integer or (not size.is_number and sympy.denom(size) == 1 and size.is_integer is not False)


def _product(atoms: Sequence[Atom]) -> Any:
    size: Any = 1
    for atom in atoms:
        size = size * atom.size
    return size
