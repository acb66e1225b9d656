"""The canonical form of a traced graph: rules that make the graphs of different roads one and the same.

1. alias, detach and lift_fresh_copy are their operand; assertions go.
2. A view, expansion, clone, slice, permutation or conversion that changes neither dtype, shape nor stride is its
   operand.
3. getitem(unbind(x, d), i) and squeeze(slice(x, d, i, i + 1), [d]) are select(x, d, i).

Rule 4, about clones that feed an output, belongs to the text alone: see identity.py. Besides, dimensions are counted
from the first, arguments equal to their defaults are left out, equal calls are made once, and dead calls go. No rule
makes an output share memory with an input or with another output where the original did not.
"""

import operator
import sys
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.fx.node import Node

from kernelwright.graph.node import base_of, erase_dead, output_of, same_size, same_tensor, shape_of, shown_outputs

aten = torch.ops.aten

_ALIASES = frozenset({aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default, aten.lift.default})
_PERHAPS_IDENTITY = frozenset(
    {
        aten.view.default,
        aten.expand.default,
        aten.clone.default,
        aten.slice.Tensor,
        aten.permute.default,
        aten._to_copy.default,
        aten.squeeze.dims,
    }
)
_FRESH = frozenset({aten.clone.default, aten._to_copy.default, aten.lift_fresh_copy.default})
_TO_THE_END = sys.maxsize
_DIMENSIONS = frozenset({"dim", "dims"})
"""Names of arguments that are dimensions of an operator's first operand."""
_RANK_ADDED = frozenset({aten.unsqueeze.default, aten.stack.default})
"""Operators whose dimension is one of the result, which has one more."""


def canonicalise(graph: fx.Graph) -> None:
    """Applies the rules in place, once, in the order of the calls."""
    kept_apart = _kept_apart(graph)
    shown = shown_outputs(graph)
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if isinstance(node.target, OpOverload):
            node.args, node.kwargs = bound(node.target, node.args, node.kwargs)
        if node.target in (aten.view.default, aten.expand.default):
            node.args = (node.args[0], _known_sizes(node))
        twin = _operand_rule(node, kept_apart) or _select_rule(graph, node)
        if twin is None and node not in shown and not _draws(node):
            twin = known.setdefault(_key(node), node)
        if twin is not None and twin is not node:
            node.replace_all_uses_with(twin)
    erase_dead(graph)


def bound(target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in their positions, with trailing ones left out where they equal the schema's default."""
    positions = [item for item in target._schema.arguments if not item.kwarg_only]
    values, named = list(args), dict(kwargs)
    for item in positions[len(values) :]:
        if item.name in named:
            values.append(named.pop(item.name))
        elif item.has_default_value():
            values.append(item.default_value)
        else:
            break
    for place, item in enumerate(positions[: len(values)]):
        if item.name in _DIMENSIONS:
            values[place] = _from_the_first(values[place], values[0], target)
    while values and _is_default(positions[len(values) - 1], values[-1]):
        values.pop()
    for item in target._schema.arguments:
        if item.kwarg_only and item.name in named and _is_default(item, named[item.name]):
            del named[item.name]
    if target is aten.slice.Tensor:
        values = _to_the_end(values)
    return tuple(values), named


def _from_the_first(dims: Any, operand: Any, target: OpOverload) -> Any:
    """Dimensions of the operand without those that are counted from the last."""
    if isinstance(dims, (list, tuple)):
        return [_from_the_first(dim, operand, target) for dim in dims]
    if isinstance(operand, (list, tuple)) and operand:
        operand = operand[0]
    if not isinstance(operand, Node) or not isinstance(dims, int) or isinstance(dims, bool) or dims >= 0:
        return dims
    rank = len(shape_of(operand)) + (target in _RANK_ADDED)
    return dims + rank if rank else dims


def _to_the_end(values: list[Any]) -> list[Any]:
    """A slice whose end is the size, or lies beyond it, says sys.maxsize."""
    if len(values) < 4 or values[4:] not in ([], [1]):
        return values
    size, end = shape_of(values[0])[values[1]], values[3]
    end = end.meta["val"] if isinstance(end, Node) else end
    beyond = isinstance(end, int) and isinstance(size, int) and end >= size
    return [*values[:3], _TO_THE_END] if beyond or same_size(end, size) else values


def _known_sizes(node: Node) -> list[Any]:
    """The sizes asked for, with numbers in the place of -1."""
    asked, made = cast(list[Any], node.args[1]), shape_of(node)
    return [new if isinstance(new, int) else old for old, new in zip(asked, made, strict=True)]


def _operand_rule(node: Node, kept_apart: set[Node]) -> Node | None:
    """Rules 1 and 2."""
    if node in kept_apart or not node.args or not isinstance(node.args[0], Node):
        return None
    operand = node.args[0]
    if node.target in _ALIASES:
        return operand
    value, before = node.meta.get("val"), operand.meta.get("val")
    if node.target in _PERHAPS_IDENTITY and isinstance(value, Tensor) and isinstance(before, Tensor):
        return operand if same_tensor(value, before) else None
    return None


def _select_rule(graph: fx.Graph, node: Node) -> Node | None:
    """Rule 3."""
    match = _unbound(node) or _squeezed(node)
    if match is None:
        return None
    with graph.inserting_before(node):
        select = graph.call_function(aten.select.int, match)
    select.meta["val"] = node.meta["val"]
    return select


def _unbound(node: Node) -> tuple[Node, int, int] | None:
    if node.target is not operator.getitem:
        return None
    unbind, index = cast(tuple[Node, int], node.args)
    if unbind.target is not aten.unbind.int:
        return None
    source, dim, *_ = cast(tuple[Any, ...], (*unbind.args, 0))
    return source, dim % len(shape_of(source)), index


def _squeezed(node: Node) -> tuple[Node, int, int] | None:
    if node.target is not aten.squeeze.dims:
        return None
    cut, dims = cast(tuple[Node, list[int]], node.args)
    if cut.target is not aten.slice.Tensor or len(cut.args) != 4:
        return None
    source, dim, start, end = cast(tuple[Node, int, Any, Any], cut.args)
    rank = len(shape_of(source))
    if len(dims) != 1 or dims[0] % rank != dim % rank or not isinstance(start, int):
        return None
    if end == _TO_THE_END:
        end = shape_of(source)[dim]
    return (source, dim % rank, start) if start >= 0 and same_size(end, start + 1) else None


def _kept_apart(graph: fx.Graph) -> set[Node]:
    """Copies that keep an output's memory apart from an input or from another output."""
    shown = shown_outputs(graph)
    bases = [base_of(node) for node in output_of(graph).all_input_nodes]
    apart = set()
    for node in shown:
        if node.target in _FRESH and isinstance(node.args[0], Node):
            base = base_of(node.args[0])
            while base.target in _FRESH and isinstance(base.args[0], Node):
                base = base_of(base.args[0])
            if base.op != "call_function" or base in shown or bases.count(node) > 1 or _copied_twice(base, shown):
                apart.add(node)
    return apart


def _copied_twice(base: Node, shown: set[Node]) -> bool:
    copies = [node for node in shown if node.target in _FRESH and base_of(cast(Node, node.args[0])) is base]
    return len(copies) > 1


def _draws(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _key(node: Node) -> Any:
    return node.target, _hashable(node.args), _hashable(node.kwargs)


def _hashable(item: Any) -> Any:
    if isinstance(item, (list, tuple)):
        return tuple(_hashable(part) for part in item)
    if isinstance(item, dict):
        return tuple((key, _hashable(part)) for key, part in sorted(item.items()))
    if isinstance(item, slice):
        return "slice", _hashable(item.start), _hashable(item.stop), _hashable(item.step)
    if isinstance(item, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return "symbol", str(item.node.expr)
    if isinstance(item, Node):
        return item
    return type(item), repr(item)


def _is_default(argument: Any, value: Any) -> bool:
    if not argument.has_default_value():
        return False
    default = argument.default_value
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return all(isinstance(part, int) for part in value) and list(value) == list(default)
    return type(value) is type(default) and value == default
