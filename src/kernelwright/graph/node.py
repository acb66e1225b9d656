"""What is asked of graph nodes everywhere: their fake value, their size, whether they are views, and how to add one."""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.fx.node import Node, map_aggregate

aten = torch.ops.aten

VIEWS = frozenset(
    {
        aten.view.default,
        aten.permute.default,
        aten.expand.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.dims,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.unsqueeze.default,
        aten.as_strided.default,
        aten.diagonal.default,
        aten.unfold.default,
        aten.split.Tensor,
        aten.split_with_sizes.default,
        aten.unbind.int,
        aten.transpose.int,
        aten.t.default,
        aten.alias.default,
        aten.detach.default,
        aten.view.dtype,
        aten.real.default,
        operator.getitem,
    }
)
"""Operators whose result shares its first operand's memory (getitem: when its operand does)."""


def value_of(node: Node) -> Any:
    """The fake tensor, tuple of them, or symbolic size that the node stands for."""
    return node.meta["val"]


def tensor_of(node: Node) -> Tensor:
    """The fake tensor that the node stands for. Raises TypeError where it is none."""
    value = node.meta["val"]
    if not isinstance(value, Tensor):
        raise TypeError(f"{node} is a {type(value).__name__}, not a tensor")
    return value


def shape_of(node: Node) -> tuple[Any, ...]:
    """The sizes: integers or SymInts."""
    return tuple(tensor_of(node).shape)


def same_size(left: Any, right: Any) -> bool:
    """Whether two sizes are equal for all values of their symbols. Adds no guard."""
    return expression(left) == expression(right)


def same_sizes(left: Any, right: Any) -> bool:
    """`same_size` of two sequences."""
    return len(left) == len(right) and all(same_size(a, b) for a, b in zip(left, right, strict=True))


def same_tensor(left: Tensor, right: Tensor) -> bool:
    """Whether dtype, shape and stride agree."""
    return (
        left.dtype == right.dtype and same_sizes(left.shape, right.shape) and same_sizes(left.stride(), right.stride())
    )


def expression(size: Any) -> Any:
    """A size as an integer or a sympy expression."""
    return size.node.expr if isinstance(size, torch.SymInt) else size


def example_size(size: Any) -> int:
    """A size at the example that was traced."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def is_contiguous(value: Tensor) -> bool:
    """Whether the strides are those of a row-major tensor; dimensions of size 1 count too. Adds no guard."""
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if expression(size) == 1:
            continue
        if expression(stride) != expression(expected):
            return False
        expected = expected * size
    return True


def base_of(node: Node) -> Node:
    """The node whose memory a view shows; the node itself where it is no view."""
    while node.op == "call_function" and node.target in VIEWS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node


def output_of(graph: fx.Graph) -> Node:
    """The graph's output node."""
    (output,) = graph.find_nodes(op="output")
    return output


def placeholders_of(graph: fx.Graph) -> list[Node]:
    """The graph's inputs in order."""
    return list(graph.find_nodes(op="placeholder"))


def shown_outputs(graph: fx.Graph) -> set[Node]:
    """The nodes that are outputs or are seen through views by one: whose memory a caller may hold."""
    shown: set[Node] = set()
    for node in output_of(graph).all_input_nodes:
        while node not in shown:
            shown.add(node)
            if node.op != "call_function" or node.target not in VIEWS or not isinstance(node.args[0], Node):
                break
            node = node.args[0]
    return shown


def append(graph: fx.Graph, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
    """Adds a call at the graph's insertion point, with its fake value computed."""
    node = graph.call_function(target, args, kwargs)
    node.meta["val"] = evaluate(target, args, kwargs)
    return node


def evaluate(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The fake result of a call whose arguments hold nodes."""
    seen: list[Any] = []

    def fake(item: Any) -> Any:
        if isinstance(item, Node):
            seen.append(item.meta["val"])
            return item.meta["val"]
        return item

    fakes, fake_kwargs = map_aggregate(args, fake), map_aggregate(kwargs, fake)
    mode = detect_fake_mode([value for value in seen if isinstance(value, Tensor)])
    if mode is None:
        raise ValueError(f"{target} has no fake tensor among its arguments")
    with mode, torch.no_grad():
        return target(*fakes, **fake_kwargs)


def erase_dead(graph: fx.Graph) -> int:
    """Removes the calls whose results nobody uses, and says how many."""
    dead = 0
    for node in reversed(list(graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users:
            graph.erase_node(node)
            dead += 1
    return dead
