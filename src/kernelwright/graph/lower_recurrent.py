"""Recurrent layers as one product of all steps' inputs and one kernel that goes through the steps.

A captured LSTM is an operator; GRUs and plain RNNs come with their steps written out, and are found by one step's form.
`with_recurrent_layers` puts `recurrent_layer` in their place, which only lowering knows.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.graph.lower_emit import Source, faked
from kernelwright.graph.lower_filled import FilledCall, Maker, Packing, scalar_of
from kernelwright.graph.node import erase_dead, expression, is_contiguous, same_sizes, shape_of, tensor_of
from kernelwright.loops import ScalarType, Size, packed_recurrent, recurrent, recurrent_weights

aten = torch.ops.aten

LEAST_STEPS = 2
LARGEST_HIDDEN = 4096
"""Hidden numbers of a layer whose weights are kept a second time, packed."""
_LSTM = 2
"""The mode of `mkldnn_rnn_layer` that is an LSTM."""


def recurrent_layer(
    given: Tensor, first: Tensor, state: Tensor | None, weight: Tensor, bias: Tensor | None, cell: str, reversed: bool
) -> tuple[Tensor, ...]:
    """The target of a node that stands for a layer: its hidden states, the last one, and of an LSTM the cell's last.

    given: (steps, batch, gates * hidden), the inputs' part of the gates. first, state: (1, batch, hidden).
    weight: (gates * hidden, hidden). bias: (gates * hidden,). Reversed layers begin with the last step.
    """
    raise NotImplementedError("recurrent_layer is a kernel in printed modules only")


@dataclass(frozen=True)
class _Step:
    """A hidden state of a GRU or RNN that is made of the one before."""

    cell: str
    given: Node
    place: int
    before: Node
    weight: Node
    bias: Node | None


def with_recurrent_layers(graph: fx.Graph) -> fx.Graph:
    """The graph, or a copy with recurrent layers as nodes of their own if it has any."""
    steps = _steps(graph)
    if not steps and all(node.target is not aten.mkldnn_rnn_layer.default for node in graph.nodes):
        return graph
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    for node in list(copy.nodes):
        if node.target is aten.mkldnn_rnn_layer.default:
            _open(copy, node)
    for chain in _chains(_steps(copy)):
        _roll(copy, chain)
    erase_dead(copy)
    for node in [node for node in copy.nodes if node.target is recurrent_layer]:
        _results(copy, node)
    return copy


def _open(graph: fx.Graph, node: Node) -> None:
    """An LSTM's operator as a product and a layer, if it is of a form that kernels know."""
    x, weight, hidden_weight, bias, hidden_bias, first, state, reversed, sizes, mode, *rest = cast(Any, node.args)
    _, layers, has_biases, bidirectional, batch_first, train = rest
    places = [user.args[1] if user.target is operator.getitem else None for user in node.users]
    if mode != _LSTM or sizes or layers != 1 or bidirectional or batch_first or train or not set(places) <= {0, 1, 2}:
        return
    if not _fits(x, hidden_weight, first, 4) or not is_contiguous(tensor_of(weight)):
        return
    with graph.inserting_before(node):
        biases = (bias, hidden_bias) if has_biases else (None, None)
        given = graph.call_function(aten.linear.default, (x, weight, *([biases[0]] if has_biases else [])))
        steps, batch, _ = shape_of(x)
        given.meta["val"] = faked(tensor_of(x), lambda: torch.empty(steps, batch, 4 * shape_of(first)[2]))
        results = _layer(graph, given, first, state, hidden_weight, biases[1], "lstm", reversed)
    for user in list(node.users):
        user.replace_all_uses_with(results[cast(int, user.args[1])])


def _fits(given: Node, weight: Node, first: Node, gates: int) -> bool:
    hidden = shape_of(first)[-1]
    return (
        all(scalar_of(node) is ScalarType.FLOAT32 for node in (given, weight, first))
        and len(shape_of(given)) == len(shape_of(first)) == 3
        and isinstance(hidden, int)
        and 0 < hidden <= LARGEST_HIDDEN
        and shape_of(weight) == (gates * hidden, hidden)
        and is_contiguous(tensor_of(weight))
    )


def _layer(
    graph: fx.Graph,
    given: Node,
    first: Node,
    state: Node | None,
    weight: Node,
    bias: Node | None,
    cell: str,
    reversed: bool,
) -> list[Node]:
    """The layer as a node, and its results."""
    steps, batch, _ = shape_of(given)
    shapes = [(steps, batch, shape_of(first)[2]), *[tuple(shape_of(first))] * (1 if state is None else 2)]
    layer = graph.call_function(recurrent_layer, (given, first, state, weight, bias, cell, reversed))
    layer.meta["val"] = tuple(faked(tensor_of(given), lambda shape=shape: torch.empty(shape)) for shape in shapes)
    return _results(graph, layer)


def _results(graph: fx.Graph, layer: Node) -> list[Node]:
    """The layer's results, used or not: the kernel writes them all."""
    found = {cast(int, user.args[1]): user for user in layer.users}
    with graph.inserting_after(layer):
        for number in range(len(layer.meta["val"])):
            if number not in found:
                found[number] = graph.call_function(operator.getitem, (layer, number))
                found[number].meta["val"] = layer.meta["val"][number]
    return [found[number] for number in sorted(found)]


# ---- layers whose steps are written out ------------------------------------------------------------------------------


def _steps(graph: fx.Graph) -> dict[Node, _Step]:
    return {node: step for node in graph.nodes if (step := _rnn_step(node) or _gru_step(node)) is not None}


def _rnn_step(node: Node) -> _Step | None:
    """tanh(linear(before) + given[place]), or relu of it."""
    cell = {aten.tanh.default: "tanh", aten.relu.default: "relu"}.get(node.target)  # type: ignore[arg-type]
    parts = _of(node.args[0], aten.add.Tensor) if cell else None
    if cell is None or parts is None:
        return None
    return _step(cell, parts[0], parts[1], 1)


def _gru_step(node: Node) -> _Step | None:
    """(before - new) * update + new, of new = tanh(given_n + linear_n * reset) and two gates."""
    ends = _of(node, aten.add.Tensor)
    product = ends and _of(ends[0], aten.mul.Tensor)
    difference = product and _of(product[0], aten.sub.Tensor)
    fresh = ends and _of(ends[1], aten.tanh.default)
    if not ends or not product or not difference or not fresh or difference[1] is not ends[1]:
        return None
    inner = _of(fresh[0], aten.add.Tensor)
    held = inner and _of(inner[1], aten.mul.Tensor)
    if not inner or not held:
        return None
    gates = [_gate(held[1]), _gate(product[1]), (held[0], inner[0])]
    if any(gate is None for gate in gates):
        return None
    hidden, given = (_parted([cast(tuple[Any, Any], gate)[side] for gate in gates]) for side in (0, 1))
    step = hidden and given and _step("gru", hidden, given, 3)
    return step if step and step.before is difference[0] else None


def _gate(node: Any) -> tuple[Any, Any] | None:
    """What is summed up in a sigmoid."""
    inner = _of(node, aten.sigmoid.default)
    parts = inner and _of(inner[0], aten.add.Tensor)
    return (parts[0], parts[1]) if parts else None


def _parted(parts: Sequence[Any]) -> Node | None:
    """The node whose last dimension is split into these equal parts, in order."""
    for number, part in enumerate(parts):
        if not isinstance(part, Node) or part.target is not operator.getitem or part.args[1] != number:
            return None
    split = parts[0].args[0]
    if any(part.args[0] is not split for part in parts) or split.target is not aten.split_with_sizes.default:
        return None
    whole, sizes, dim = cast(tuple[Node, list[Any], int], (*split.args, 0)[:3])
    return whole if len(set(sizes)) == 1 and dim in (-1, len(shape_of(whole)) - 1) else None


def _step(cell: str, hidden: Any, given: Any, gates: int) -> _Step | None:
    mapped, chosen = _of(hidden, aten.linear.default), _of(given, aten.select.int)
    if not mapped or not chosen or chosen[1] != 0:
        return None
    before, weight, bias = cast(tuple[Node, Node, Node | None], (*mapped, None)[:3])
    if not _fits(chosen[0], weight, before, gates):
        return None
    size = shape_of(weight)[0]
    one, rows, _ = shape_of(before)
    if one != 1 or not same_sizes(shape_of(chosen[0])[1:], (rows, size)):
        return None
    if bias is not None and (scalar_of(bias) is not ScalarType.FLOAT32 or not same_sizes(shape_of(bias), (size,))):
        return None
    return _Step(cell, chosen[0], chosen[2], before, weight, bias)


def _of(node: Any, target: Any) -> tuple[Any, ...] | None:
    """The arguments of a call of `target`, if it is one."""
    return node.args if isinstance(node, Node) and node.target is target and not node.kwargs else None


def _chains(steps: dict[Node, _Step]) -> list[list[tuple[Node, _Step]]]:
    """Steps that follow one another, from the first to the last of what they are given."""
    after = {step.before: (node, step) for node, step in steps.items() if step.place > 0}
    found = []
    for node, step in steps.items():
        if step.place != 0:
            continue
        chain = [(node, step)]
        while (following := after.get(chain[-1][0])) is not None and _same_layer(chain[-1][1], following[1]):
            chain.append(following)
        if len(chain) >= LEAST_STEPS and expression(shape_of(step.given)[0]) == len(chain):
            found.append(chain)
    return found


def _same_layer(step: _Step, other: _Step) -> bool:
    same = (step.cell, step.given, step.weight, step.bias) == (other.cell, other.given, other.weight, other.bias)
    return same and other.place == step.place + 1


def _roll(graph: fx.Graph, chain: Sequence[tuple[Node, _Step]]) -> None:
    """The steps as a layer, whose results take the place of the steps' values and of what they were put together to."""
    step = chain[0][1]
    turned = _of(step.given, aten.flip.default)
    reversed = turned is not None and turned[1] == [0]
    given = turned[0] if turned and reversed else step.given
    nodes = [node for node, _ in chain]
    with graph.inserting_before(nodes[0]):
        out, last = _layer(graph, given, step.before, None, step.weight, step.bias, step.cell, reversed)
    in_order = nodes[::-1] if reversed else nodes
    for user in list(nodes[0].users):
        if (
            user.target is aten.cat.default
            and list(cast(Any, user.args[0])) == in_order
            and user.args[1:] in ((), (0,))
        ):
            user.replace_all_uses_with(out)
            graph.erase_node(user)
    own = {node for follower in nodes[1:] for node in _within(follower, {*nodes, step.given})}
    for place, node in enumerate(in_order):
        others = [user for user in node.users if user not in own]
        if not others:
            continue
        value = last
        if node is not nodes[-1]:
            with graph.inserting_before(nodes[0]):
                value = graph.call_function(aten.slice.Tensor, (out, 0, place, place + 1))
            value.meta["val"] = node.meta["val"]
        for user in others:
            user.replace_input_with(node, value)


def _within(node: Node, ends: set[Node]) -> set[Node]:
    """The operators of one step: what leads from `ends` to `node`."""
    found, waiting = {node}, [node]
    while waiting:
        for operand in waiting.pop().all_input_nodes:
            if operand not in found and operand not in ends and operand.op == "call_function":
                found.add(operand)
                waiting.append(operand)
    return found


# ---- the kernel --------------------------------------------------------------------------------------------------


def _recurrent(node: Node) -> FilledCall | None:
    given, first, state, weight, bias, cell, reversed = cast(tuple[Any, ...], node.args)
    symbols: dict[Any, Any] = {}
    sizes: list[Size] = []
    for size in (*shape_of(given)[:2], shape_of(first)[2]):
        value = expression(size)
        if not isinstance(value, int):
            symbols.setdefault(value, size)
        sizes.append(value if isinstance(value, int) else f"n{list(symbols).index(value)}")
    hidden = shape_of(first)[2]
    operands = [item for item in (given, first, state, bias) if item is not None]
    return FilledCall(
        recurrent(cell, reversed, (sizes[0], sizes[1], sizes[2]), bias=bias is not None),
        tuple(Source(operand, None) for operand in operands),
        tuple(symbols.values()),
        tuple(sorted(node.users, key=lambda result: cast(int, result.args[1]))),
        (node,),
        Packing(packed_recurrent(cell, hidden), weight, recurrent_weights(cell, hidden)),
    )


RECURRENT: dict[Any, Maker] = {recurrent_layer: _recurrent}
