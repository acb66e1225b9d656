"""Rules that spare copies: values are read where they are instead of being laid out anew."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import torch
from torch._ops import OpOverload
from torch.fx.node import Node

from kernelwright.graph.movement import VIEWING, Atom, Movement, Written, is_copy, read
from kernelwright.graph.node import (
    append,
    example_size,
    is_contiguous,
    same_size,
    same_sizes,
    shape_of,
    shown_outputs,
    tensor_of,
)

aten = torch.ops.aten

_ATTEND = aten.scaled_dot_product_attention.default
_LARGE = 64
"""Rows of a matrix for which a product of its own is no loss: below, BLAS spends more on the call than on the sums."""


def moved(node: Node) -> Node | None:
    """A chain of views and copies is at most a view, a selection, a permutation and a view. Moves no values.

    Copies on the way are left out where the chain's users read any layout as fast as they read a contiguous one.
    A copy that others need too is not made twice.
    """
    if not _ends_chain(node):
        return None
    chain = read(node, shown_outputs(node.graph))
    if chain.calls < 2:
        return None
    written = Written(node.graph, chain)
    if _is_better(written, chain) and (
        is_contiguous(tensor_of(written.node)) or _any_layout(node, written.node, _takes)
    ):
        return written.node
    written.undo()
    return None


def heads(node: Node) -> Node | None:
    """Attention over (batch * heads, 1, rows, size) is attention over (batch, heads, rows, size). Exact.

    Where that spares copies of query, key or value, which then are views of what they were cut from. Only without
    a mask, or with one for all batches alike.
    """
    if node.target is not _ATTEND or len(shape_of(node)) != 4 or not same_size(shape_of(node)[1], 1):
        return None
    if len(node.args) > 3 and isinstance(node.args[3], Node):
        mask = shape_of(node.args[3])
        if not all(same_size(size, 1) for size in mask[:-2]):
            return None
    shown = shown_outputs(node.graph)
    chains = [read(operand, shown) for operand in cast(tuple[Node, ...], node.args[:3])]
    split = [_with_heads(chain) for chain in chains]
    if any(chain is None for chain in split):
        return None
    parts = [Written(node.graph, cast(Movement, chain)) for chain in split]
    batches = [shape_of(part.node)[:2] for part in parts]
    before = len({copy for chain in chains for copy in chain.copies})
    spared = sum(part.copies for part in parts) < before
    rows = all(same_size(tensor_of(part.node).stride()[-1], 1) for part in parts)
    if not (spared and rows and all(same_sizes(batch, batches[0]) for batch in batches)):
        for part in parts:
            part.undo()
        return None
    attended = append(node.graph, _ATTEND, *(part.node for part in parts), *node.args[3:], **node.kwargs)
    if is_contiguous(tensor_of(attended)):
        return append(node.graph, aten.view.default, attended, list(shape_of(node)))
    copied = append(node.graph, aten.clone.default, attended, memory_format=torch.contiguous_format)
    return append(node.graph, aten.view.default, copied, list(shape_of(node)))


def rows_in_memory(node: Node) -> Node | None:
    """A linear map of rows in another order is the map of the rows as they lie in memory, reordered.

    Equal but for the order of BLAS's sums. torch copies rows whose dimensions are permuted, or multiplies many small
    matrices. Rows that lie feature by feature go to baddbmm, since BLAS takes transposed matrices (1024 x 2 rows of
    128 features to 384: 2.3 ms instead of 3.3, torch 2.13, one x86-64 core). Only for users that take any layout.
    """
    if node.target is not aten.linear.default:
        return None
    value = cast(Node, node.args[0])
    strides = tensor_of(value).stride()
    rank = len(strides)
    if rank < 3 or not all(isinstance(step, int) and step > 0 for step in strides):
        return None
    order = sorted(range(rank - 1), key=lambda dim: -strides[dim])
    if is_contiguous(tensor_of(value)):
        return None
    made = [append(node.graph, aten.permute.default, value, [*order, rank - 1])]
    mapped = _mapped(made[0], node, made)
    if mapped is not None:
        backward = [*(order.index(dim) for dim in range(rank - 1)), rank - 1]
        made.append(append(node.graph, aten.permute.default, mapped, backward))
        if _any_layout(node, made[-1], lambda user, other: user.target is aten.linear.default or _takes(user, other)):
            return made[-1]
    for call in reversed(made):
        node.graph.erase_node(call)
    return None


def _mapped(rows: Node, node: Node, made: list[Node]) -> Node | None:
    """The linear map of `rows`, where one product reads them as they are. Adds its calls to `made`."""
    graph, value = node.graph, tensor_of(rows)
    if is_contiguous(value):
        made.append(append(graph, aten.linear.default, rows, *node.args[1:]))
        return made[-1]
    batch, length, features = (*shape_of(rows), 1, 1, 1)[:3]
    if value.dim() != 3 or value.stride()[-2] != 1 or value.dtype not in (torch.float32, torch.float64):
        return None
    if example_size(length) < _LARGE:
        return None
    weight, bias = cast(tuple[Node, Node | None], (*node.args[1:], None)[:2])
    made.append(append(graph, aten.permute.default, weight, [1, 0]))
    made.append(append(graph, aten.expand.default, made[-1], [batch, features, shape_of(node)[-1]]))
    if bias is None:
        made.append(append(graph, aten.bmm.default, rows, made[-1]))
    else:
        made.append(append(graph, aten.baddbmm.default, bias, rows, made[-1]))
    return made[-1]


def rows_together(node: Node) -> Node | None:
    """A linear map of rows that are gathered first and scattered again is the map of the rows where they lie. Exact.

    Where all users read the result in the order that the rows had in memory, so that neither way needs a copy.
    """
    if node.target is not aten.linear.default:
        return None
    shown = shown_outputs(node.graph)
    chain = read(cast(Node, node.args[0]), shown)
    if not chain.copies or node in shown or any(atom.index is not None for atom in chain.atoms):
        return None
    whole = Written(node.graph, replace(chain, dims=tuple((atom,) for atom in chain.atoms)))
    strides = dict(zip(chain.atoms, tensor_of(whole.node).stride(), strict=True))
    whole.undo()
    if not all(isinstance(step, int) for step in strides.values()):
        return None
    gathered = [atom for group in chain.dims[:-1] for atom in group]
    lying = sorted(gathered, key=lambda atom: -strides[atom])
    rows = Written(node.graph, replace(chain, dims=(*((atom,) for atom in lying), chain.dims[-1])))
    if rows.copies or not is_contiguous(tensor_of(rows.node)):
        rows.undo()
        return None
    mapped = append(node.graph, aten.linear.default, rows.node, *node.args[1:])
    made = Atom(shape_of(node)[-1])
    result = Movement(mapped, (*lying, made), (*chain.dims[:-1], (made,)))
    ends = [_composed(result, read(end, shown), gathered) for end in _ends(node)]
    if all(end is not None and _is_read_in_place(end) for end in ends):
        return Written(node.graph, result).node
    node.graph.erase_node(mapped)
    rows.undo()
    return None


def _ends(node: Node) -> list[Node]:
    """Where the chains of views and copies that begin at `node` end."""
    found = [node] if any(user.target not in VIEWING and not is_copy(user) for user in node.users) else []
    for user in node.users:
        if user.target in VIEWING or is_copy(user):
            found += _ends(user)
    return found


def _composed(first: Movement, second: Movement, rows: list[Atom]) -> Movement | None:
    """One movement after another that cuts rows and features as the first does."""
    atoms = [*rows, first.dims[-1][0]]
    if len(second.atoms) != len(atoms) or any(atom.index is not None for atom in second.atoms):
        return None
    if not same_sizes([atom.size for atom in second.atoms], [atom.size for atom in atoms]):
        return None
    same = dict(zip(second.atoms, atoms, strict=True))
    return replace(first, dims=tuple(tuple(same[atom] for atom in group) for group in second.dims))


def _is_read_in_place(movement: Movement) -> bool:
    written = Written(movement.source.graph, movement)
    in_place = not written.copies and is_contiguous(tensor_of(written.node))
    written.undo()
    return in_place


def _with_heads(chain: Movement) -> Movement | None:
    """The chain with its first dimension, of two atoms, in the place of the first two."""
    first, second, *others = chain.dims
    if second or len(first) != 2:
        return None
    return replace(chain, dims=(first[:1], first[1:], *others))


def _ends_chain(node: Node) -> bool:
    """Whether a chain of views and copies ends here for some user."""
    if node.target not in VIEWING and not is_copy(node):
        return False
    return any(user.target not in VIEWING and not is_copy(user) for user in node.users)


def _is_better(written: Written, chain: Movement) -> bool:
    """Whether the chain as written makes fewer copies, or as many with fewer calls."""
    if written.copies != len(chain.copies):
        return written.copies < len(chain.copies)
    alone = all(len(copy.users) == 1 for copy in chain.copies)
    return alone and len(written.made) < chain.calls


def _any_layout(node: Node, other: Node, takes: Callable[[Node, Node], bool]) -> bool:
    """Whether all that read `node`, through views, copies and pointwise operators, take the strides of `other`."""
    pending, seen = [node], {node}
    while pending:
        for user in pending.pop().users:
            if user.target in VIEWING or is_copy(user) or _is_pointwise(user):
                pending += [user] if user not in seen else []
                seen.add(user)
            elif not takes(user, other):
                return False
    return True


def _takes(user: Node, other: Node) -> bool:
    """Whether the user reads values in the layout of `other` as fast as contiguous ones."""
    strides = tensor_of(other).stride()
    if user.target is _ATTEND:
        return same_size(strides[-1], 1)
    return user.target is aten.linear.default and len(strides) == 2 and any(same_size(step, 1) for step in strides)


def _is_pointwise(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags
