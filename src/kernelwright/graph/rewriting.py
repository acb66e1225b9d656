"""Algebra: rules that turn a graph into a cheaper one that computes the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.graph.algebra.convolutions import mean_of_convolution, pooled_convolution
from kernelwright.graph.algebra.folding import folded, like_terms
from kernelwright.graph.algebra.ones import logsumexp_of_one, single
from kernelwright.graph.algebra.picked import picked_log_softmax
from kernelwright.graph.algebra.pools import pool_before_rising, pool_of_pool
from kernelwright.graph.algebra.sums import pooled_outputs, summed_outputs
from kernelwright.graph.algebra.weights import is_prepared
from kernelwright.graph.attention import attention, causal
from kernelwright.graph.canonical import canonicalise
from kernelwright.graph.captured import Capture
from kernelwright.graph.identities import cast_there_and_back, double_permutation, double_view, dropout, neutral
from kernelwright.graph.layouts import heads, moved, rows_in_memory, rows_together
from kernelwright.graph.node import append, erase_dead, evaluate, is_contiguous, output_of, placeholders_of, same_sizes

aten = torch.ops.aten

_PASSES = 8
"""A bound: no rule undoes another's work, but a set of rules that a caller makes may."""


@dataclass(frozen=True)
class Rule:
    """A local rewrite that is sound for all values, but for what its docstring says of rounding, NaN and infinity.

    `find` looks at one node. Where the pattern ends there it adds the replacement's nodes before it and returns the
    node that takes its place, else None. The replacement has the dtype and shape of the original; strides may differ.
    Of placeholders, `meta["content"]` holds a constant's values, `meta["parameter"]` is true of parameters and
    `meta["weight"]` of buffers too. Calls with `meta["prepared"]` follow from weights alone (algebra/weights.py).
    """

    name: str
    find: Callable[[Node], Node | None]
    drops_work: bool = False
    """Whether most of the reference's arithmetic is not done any more: a result is then labelled `algorithmic`."""

    @property
    def soundness(self) -> str:
        """Why it holds, and what it changes in the last bits."""
        return (self.find.__doc__ or "").strip()


RULES: tuple[Rule, ...] = (
    Rule("dropout", dropout),
    Rule("neutral", neutral),
    Rule("double permutation", double_permutation),
    Rule("double view", double_view),
    Rule("cast there and back", cast_there_and_back),
    Rule("single", single),
    Rule("logsumexp of one", logsumexp_of_one),
    Rule("summed outputs", summed_outputs, drops_work=True),
    Rule("pooled outputs", pooled_outputs, drops_work=True),
    Rule("mean of convolution", mean_of_convolution, drops_work=True),
    Rule("pooled convolution", pooled_convolution, drops_work=True),
    Rule("pool of pool", pool_of_pool),
    Rule("pool before rising", pool_before_rising),
    Rule("picked log-softmax", picked_log_softmax),
    Rule("like terms", like_terms),
    Rule("folded", folded),
    Rule("attention", attention),
    Rule("heads", heads),
    Rule("rows in memory", rows_in_memory),
    Rule("rows together", rows_together),
    Rule("moved", moved),
)
"""What is applied by default. Dead results need no rule: a captured graph has none."""

CAUSAL = Rule("causal", causal)
"""Not among RULES: it lets torch skip what the mask hides, and with it NaNs that stand there."""


@dataclass(frozen=True)
class Rewriting:
    """A capture after its rules, and the names of those that were applied, in order."""

    capture: Capture
    applied: tuple[str, ...]
    drops_work: bool = False
    """Whether one of them does (see Rule)."""


def rewrite(capture: Capture, rules: Sequence[Rule] = RULES) -> Rewriting:
    """Applies `rules` until none finds anything. The capture given is left as it was.

    Outputs keep the strides they had, so that a caller cannot tell the difference.
    """
    copied, nodes = copy_graph(capture.graph)
    for border, place in zip(capture.inputs, placeholders_of(copied.graph), strict=True):
        if border.role == "constant":
            place.meta["content"] = capture.constants[border.name]
        place.meta["parameter"] = border.role == "parameter"
        place.meta["weight"] = border.role in ("parameter", "buffer")
    layouts = [node.meta["val"] for node in cast(tuple[Node, ...], output_of(copied.graph).args[0])]
    applied: list[str] = []
    for _ in range(_PASSES):
        found = _one_pass(copied.graph, rules)
        if not found:
            break
        applied += found
        refresh(copied.graph)
        canonicalise(copied.graph)
    if applied:
        _restore_layouts(copied.graph, layouts)
    dropping = any(rule.drops_work for rule in rules if rule.name in applied)
    return Rewriting(with_graph(capture, copied, nodes), tuple(applied), dropping)


def copy_graph(graph: fx.GraphModule) -> tuple[fx.GraphModule, dict[Node, Node]]:
    """A copy to be changed, and for each node of the original its copy."""
    copied = fx.Graph()
    nodes: dict[Node, Node] = {}
    output = copied.graph_copy(graph.graph, nodes)
    copied.output(cast(Any, output))
    for old, new in nodes.items():
        new.meta = dict(old.meta)
    return fx.GraphModule(graph, copied), nodes


def with_graph(capture: Capture, graph: fx.GraphModule, nodes: dict[Node, Node]) -> Capture:
    """The capture with another graph, whose placeholders are copies (by `nodes`) of its own; unused ones go."""
    kept = []
    for index, place in enumerate(placeholders_of(capture.graph.graph)):
        if nodes[place].users:
            kept.append(index)
        else:
            graph.graph.erase_node(nodes[place])
    graph.graph.lint()
    graph.recompile()
    inputs = tuple(capture.inputs[index] for index in kept)
    names = {border.name for border in inputs if border.role == "constant"}
    return replace(
        capture,
        graph=graph,
        inputs=inputs,
        positions=tuple(capture.positions[index] for index in kept),
        constants={name: value for name, value in capture.constants.items() if name in names},
    )


def refresh(graph: fx.Graph) -> None:
    """Computes all fake values again, since a rewrite may have changed strides.

    A view that the new strides do not allow gets a contiguous copy before it.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.meta["val"], (Tensor, tuple, list)):
            continue
        if not any(isinstance(operand.meta["val"], Tensor) for operand in node.all_input_nodes):
            continue  # a factory, or a part of a kernel's results
        try:
            node.meta["val"] = evaluate(node.target, node.args, node.kwargs)
        except (ValueError, RuntimeError):
            if node.target is not aten.view.default:
                raise
            with graph.inserting_before(node):
                copy = append(graph, aten.clone.default, node.args[0], memory_format=torch.contiguous_format)
            node.args = (copy, *node.args[1:])
            node.meta["val"] = evaluate(node.target, node.args, node.kwargs)


def _one_pass(graph: fx.Graph, rules: Sequence[Rule]) -> list[str]:
    applied = []
    for node in list(graph.nodes):
        if node.op != "call_function" or not node.users or is_prepared(node):
            continue
        for rule in rules:
            with graph.inserting_before(node):
                better = rule.find(node)
            if better is not None and better is not node:
                node.replace_all_uses_with(better)
                applied.append(rule.name)
                break
    erase_dead(graph)
    return applied


def _restore_layouts(graph: fx.Graph, layouts: Sequence[Tensor]) -> None:
    """Copies outputs whose strides are no longer those of before."""
    output = output_of(graph)
    results = list(cast(tuple[Node, ...], output.args[0]))
    for index, (node, before) in enumerate(zip(results, layouts, strict=True)):
        if same_sizes(node.meta["val"].stride(), before.stride()):
            continue
        with graph.inserting_before(output):
            results[index] = _laid_out(graph, node, before)
    output.args = (tuple(results),)


def _laid_out(graph: fx.Graph, node: Node, like: Tensor) -> Node:
    if is_contiguous(like):
        return append(graph, aten.clone.default, node, memory_format=torch.contiguous_format)
    order = sorted(range(like.dim()), key=lambda dim: -int(like.stride()[dim]))
    turned = append(graph, aten.permute.default, node, order)
    copied = append(graph, aten.clone.default, turned, memory_format=torch.contiguous_format)
    return append(graph, aten.permute.default, copied, [order.index(dim) for dim in range(like.dim())])
