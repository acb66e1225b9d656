"""Where the nodes of a group lie in one domain: the loop nest they are to share.

A domain is a list of sizes, cut finely enough that every dimension of every node covers some of them. A place is, for
each dimension of a tensor, the domain's dimensions it covers, outer first; a dimension of size 1 covers none, whether
it is broadcast or not. Sizes may be symbolic; they are compared as expressions, so no guard is added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_rule import Rule
from kernelwright.graph.node import example_size, expression, is_contiguous, same_size, shape_of

Place = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Layout:
    """The domain of a group and the places of its nodes."""

    dims: tuple[Any, ...]
    inner: int
    """How many of the last dimensions are reduced; 0 for a group without reductions."""
    spaces: Mapping[Node, Place]
    """Each node's space (see Rule)."""
    results: Mapping[Node, Place]
    """Each node's result."""

    def covers(self, node: Node) -> str:
        """What the node's result has an element for: each "element", each "row", or neither: ""."""
        flat = sorted(dim for covered in self.results[node] for dim in covered)
        if flat == list(range(len(self.dims))):
            return "element"
        return "row" if self.inner and flat == list(range(len(self.dims) - self.inner)) else ""


def layout(group: Iterable[Node], rules: Mapping[Node, Rule]) -> Layout | None:
    """The layout of the nodes, or None where they do not fit one nest. Nodes are in graph order."""
    nodes = list(group)
    reducing = [node for node in nodes if rules[node].reduced]
    anchor = reducing[0] if reducing else nodes[-1]
    space = rules[anchor].space
    reduced = rules[anchor].reduced
    if reduced and reduced != tuple(range(len(space) - len(reduced), len(space))):
        return None
    cut = len(space) - len(reduced)
    outer, inner = _plain(space[:cut]), _plain(space[cut:])
    for node in nodes:
        for shape in _reshapes(node, rules[node]):
            finer = _refined([*outer, *inner], _plain(shape))
            if finer is not None:
                outer, inner = finer[: _cut_at(finer, inner)], finer[_cut_at(finer, inner) :]
    dims = (*outer, *inner)
    start = regroup(range(len(dims)), space, dims)
    if start is None:
        return None
    inner_dims = range(len(outer), len(dims))
    spaces = _spread(nodes, rules, dims, inner_dims, {anchor: start})
    if spaces is None:
        return None
    results = {node: _result_of(node, rules[node], spaces[node], dims) for node in nodes}
    if any(place is None for place in results.values()):
        return None
    found = Layout(dims, len(inner) if reducing else 0, spaces, {n: p for n, p in results.items() if p is not None})
    return found if _consistent(nodes, rules, found) else None


def operand_place(
    node: Node, use_number: int, rules: Mapping[Node, Rule], space: Place, dims: Sequence[Any]
) -> Place | None:
    """Where operand `use_number` of a node lies, if the node's space lies at `space`."""
    use = rules[node].uses[use_number]
    shape = shape_of(use.node)
    if use.lies is None:
        return regroup([dim for covered in space for dim in covered], shape, dims)
    place: list[tuple[int, ...]] = []
    for size, lies in zip(shape, use.lies, strict=True):
        place.append(() if expression(size) == 1 else tuple(dim for on in lies for dim in space[on]))
    return tuple(place)


def regroup(covered: Iterable[int], shape: Sequence[Any], dims: Sequence[Any]) -> Place | None:
    """`covered` dimensions of the domain, taken in order to fill a tensor of `shape`; None where they do not fit."""
    left = list(covered)
    place: list[tuple[int, ...]] = []
    for size in shape:
        taken: list[int] = []
        product: Any = 1
        while not same_size(product, size):
            if not left:
                return None
            taken.append(left.pop(0))
            product = product * dims[taken[-1]]
        place.append(tuple(taken))
    return None if left else tuple(place)


def memory_order(value: Tensor) -> tuple[int, ...] | None:
    """The dimensions from the outermost in memory to the innermost; None where the elements are not dense."""
    if is_contiguous(value):
        return tuple(range(value.ndim))
    ones = [dim for dim in range(value.ndim) if expression(value.shape[dim]) == 1]
    rest = [dim for dim in range(value.ndim) if dim not in ones]
    rest.sort(key=lambda dim: -example_size(value.stride()[dim]))
    expected: Any = 1
    for dim in reversed(rest):
        if expression(value.stride()[dim]) != expression(expected):
            return None
        expected = expected * value.shape[dim]
    return (*ones, *rest)


# ---- the parts of `layout` --------------------------------------------------------------------------------------


def _plain(shape: Iterable[Any]) -> list[Any]:
    return [size for size in shape if expression(size) != 1]


def _reshapes(node: Node, rule: Rule) -> list[tuple[Any, ...]]:
    """The shapes in which the node sees a space other than by whole dimensions."""
    found = [shape_of(use.node) for use in rule.uses if use.lies is None]
    if rule.result is None or found or any(len(lies) > 1 for use in rule.uses for lies in use.lies or ()):
        found += [rule.space, shape_of(node)]
    return found


def _refined(left: list[Any], right: list[Any]) -> list[Any] | None:
    """The coarsest list of sizes that both lists are made of; None where there is none or their products differ."""
    left, right, found = list(left), list(right), []
    while left and right:
        a, b = left.pop(), right.pop()
        if same_size(a, b):
            found.insert(0, a)
        elif isinstance(a, int) and isinstance(b, int):
            small, large, rest = (a, b, right) if a < b else (b, a, left)
            if small == 0 or large % small:
                return None
            found.insert(0, small)
            rest.append(large // small)
        else:
            parts = _made_of(a, b, right) or _made_of(b, a, left)
            if parts is None:
                return None
            found[:0] = parts
    return found if not left and not right else None


def _made_of(whole: Any, last: Any, before: list[Any]) -> list[Any] | None:
    """The sizes ending in `last`, taken from the end of `before`, whose product is `whole`."""
    parts, product, rest = [last], last, list(before)
    while not same_size(product, whole):
        if not rest:
            return None
        parts.insert(0, rest.pop())
        product = product * parts[0]
    before[:] = rest
    return parts


def _cut_at(finer: list[Any], inner: list[Any]) -> int:
    """Where the inner dimensions begin in a refinement."""
    total: Any = 1
    for size in inner:
        total = total * size
    place, product = len(finer), 1
    while not same_size(product, total):
        place -= 1
        product = product * finer[place]
    return place


def _result_of(node: Node, rule: Rule, space: Place, dims: Sequence[Any]) -> Place | None:
    if rule.result is None:
        return regroup([dim for covered in space for dim in covered], shape_of(node), dims)
    return tuple(tuple(dim for on in lies for dim in space[on]) for lies in rule.result)


def _spread(
    nodes: list[Node], rules: Mapping[Node, Rule], dims: Sequence[Any], inner: range, known: dict[Node, Place]
) -> dict[Node, Place] | None:
    """Places every node's space, from those known, along the edges of the group in both directions."""
    spaces = dict(known)
    consumers: dict[Node, list[tuple[Node, int]]] = {node: [] for node in nodes}
    for node in nodes:
        for number, use in enumerate(rules[node].uses):
            if use.node in consumers:
                consumers[use.node].append((node, number))
    while missing := [node for node in nodes if node not in spaces]:
        placed = False
        for node in reversed(missing):
            place = _from_consumers(node, rules, spaces, consumers[node], dims, inner)
            place = place if place is not None else _from_operands(node, rules, spaces, dims)
            if place is not None:
                spaces[node], placed = place, True
        if not placed:  # nothing leads there but values of rows: take the first that covers the domain by what is left
            whole = ((node, _from_operands(node, rules, spaces, dims, left=True)) for node in reversed(missing))
            node, place = next(((node, place) for node, place in whole if place is not None), (None, None))
            if node is None or place is None:
                return None
            spaces[node] = place
    return spaces


def _from_consumers(
    node: Node,
    rules: Mapping[Node, Rule],
    spaces: Mapping[Node, Place],
    consumers: list[tuple[Node, int]],
    dims: Sequence[Any],
    inner: range,
) -> Place | None:
    rule = rules[node]
    for consumer, number in consumers:
        if consumer not in spaces:
            continue
        result = operand_place(consumer, number, rules, spaces[consumer], dims)
        if result is None:
            continue
        if rule.result is None:
            return regroup([dim for covered in result for dim in covered], rule.space, dims)
        space: list[tuple[int, ...] | None] = [() if expression(size) == 1 else None for size in rule.space]
        for covered, lies in zip(result, rule.result, strict=True):
            if len(lies) == 1:
                space[lies[0]] = covered
        if rule.reduced:
            last = regroup(inner, [rule.space[dim] for dim in rule.reduced], dims)
            if last is None:
                return None
            for dim, covered in zip(rule.reduced, last, strict=True):
                space[dim] = covered
        if all(covered is not None for covered in space):
            return tuple(covered for covered in space if covered is not None)
    return None


def _from_operands(
    node: Node, rules: Mapping[Node, Rule], spaces: Mapping[Node, Place], dims: Sequence[Any], left: bool = False
) -> Place | None:
    """With `left` the dimensions on which no known operand lies take, in order, those of the domain that are left."""
    rule = rules[node]
    space: list[tuple[int, ...] | None] = [() if expression(size) == 1 else None for size in rule.space]
    for use in rule.uses:
        if use.node not in spaces:
            continue
        result = _result_of(use.node, rules[use.node], spaces[use.node], dims)
        if result is None:
            return None
        if use.lies is None:
            return regroup([dim for covered in result for dim in covered], rule.space, dims)
        for size, covered, lies in zip(shape_of(use.node), result, use.lies, strict=True):
            if len(lies) == 1 and expression(size) != 1:
                space[lies[0]] = covered
    unknown = [dim for dim, covered in enumerate(space) if covered is None]
    if unknown and left:
        taken = {dim for covered in space for dim in covered or ()}
        rest = regroup((d for d in range(len(dims)) if d not in taken), [rule.space[dim] for dim in unknown], dims)
        for dim, covered in zip(unknown, rest or (), strict=False):
            space[dim] = covered
    if any(covered is None for covered in space):
        return None
    return tuple(covered for covered in space if covered is not None)


def _consistent(nodes: list[Node], rules: Mapping[Node, Rule], found: Layout) -> bool:
    """Whether sizes agree, every edge inside the group sees the same place from both ends, and reductions run over
    exactly the inner dimensions."""
    members = set(nodes)
    inner = list(range(len(found.dims) - found.inner, len(found.dims)))
    for node in nodes:
        rule, space = rules[node], found.spaces[node]
        for size, covered in zip(rule.space, space, strict=True):
            product: Any = 1
            for dim in covered:
                product = product * found.dims[dim]
            if not same_size(product, size):
                return False
        flat = [dim for covered in space for dim in covered]
        if len(set(flat)) != len(flat):
            return False
        if rule.reduced and [dim for on in rule.reduced for dim in space[on]] != inner:
            return False
        for number, use in enumerate(rule.uses):
            place = operand_place(node, number, rules, space, found.dims)
            if place is None or (use.node in members and place != found.results[use.node]):
                return False
    return True
