"""From a captured graph to one in which fused groups are kernels: what stays of it are library calls and views.

`lower` never fails: what no kernel covers stays a torch call, and a graph without anything to fuse comes back as it
is, with no kernels.
"""

import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import Node

from kernelwright.graph.algebra.weights import is_prepared
from kernelwright.graph.capturing import Capture
from kernelwright.graph.kernel_call import KernelCall
from kernelwright.graph.lower_attention import AttentionCall, attention_call
from kernelwright.graph.lower_emit import Source, emitted, faked, row_major, word_of
from kernelwright.graph.lower_filled import FilledCall, Maker, Packing, filled_calls
from kernelwright.graph.lower_groups import Group, groups_of
from kernelwright.graph.lower_layout import memory_order
from kernelwright.graph.lower_linear import LinearCall, linear_calls
from kernelwright.graph.lower_product import PRODUCTS, UNUSUAL_PRODUCTS
from kernelwright.graph.lower_recurrent import RECURRENT, with_recurrent_layers
from kernelwright.graph.lower_templates import CONVOLVED, FILLED
from kernelwright.graph.node import erase_dead, is_contiguous, placeholders_of, tensor_of
from kernelwright.loops import (
    LINEAR_TEMPLATE,
    Attention,
    Convolution,
    Filled,
    Fusion,
    Linear,
    PackedWeight,
    Plan,
    attention_template,
    filled_template,
    nest,
    packed_elements,
    print_attention,
    print_convolution,
    print_cpp,
    print_filled,
    print_linear,
    print_packed_weight,
    scheduled,
)

aten = torch.ops.aten

# Their results lie row-major in memory, whatever the operands' strides.
_ROW_MAJOR = frozenset(
    {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.linear.default, aten.embedding.default}
)


@dataclass(frozen=True)
class Lowering:
    """A capture with kernels in it, and what they compute."""

    capture: Capture
    fusions: tuple[Fusion, ...]
    """One for each generated kernel; none where nothing was worth fusing."""
    attentions: tuple[Attention, ...] = ()
    """One for each kernel made from the attention template."""
    linears: tuple[Linear, ...] = ()
    """One for each thing that is done with the sums of linear maps."""
    packed_weights: tuple[PackedWeight, ...] = ()
    """The kernels that pack their weights."""

    filled: tuple[Filled | Convolution, ...] = ()
    """One for each kernel made from another template."""
    packings: tuple[Filled, ...] = ()
    """The kernels that pack their weights."""

    @property
    def convolutions(self) -> tuple[Convolution, ...]:
        return tuple(kernel for kernel in self.filled if isinstance(kernel, Convolution))

    @property
    def multiplies(self) -> bool:
        """Whether a kernel does what a library's matrix product would."""
        return bool(self.linears) or any(kernel.template in ("gemm", "recurrent") for kernel in self.filled)

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels' names, without those that pack weights."""
        return tuple(kernel.name for kernel in (*self.linears, *self.attentions, *self.filled, *self.fusions))

    def text(self, plan: Plan | None = None, plans: Mapping[str, Plan] | None = None) -> str:
        """The C++ file with all kernels, scheduled by `plan`, or by the plan of their name in `plans`."""
        chosen = plan or Plan()
        templates = [LINEAR_TEMPLATE] if self.linears else []
        templates += [filled.template for filled in self.filled]
        parts = [filled_template(name) for name in dict.fromkeys(templates)]
        parts += [print_linear(linear) for linear in self.linears]
        parts += [print_packed_weight(packed) for packed in self.packed_weights]
        parts += [attention_template()] if self.attentions else []
        parts += [print_attention(attention) for attention in self.attentions]
        parts += [print_filled(filled) for filled in (*self.packings, *self.filled) if isinstance(filled, Filled)]
        parts += [print_convolution(convolution) for convolution in self.convolutions]
        parts += [print_cpp(scheduled(nest(fusion), (plans or {}).get(fusion.name, chosen))) for fusion in self.fusions]
        return "\n".join(parts)


def lower(
    capture: Capture, *, attention: bool = True, linear: bool = True, products: bool = True, convolution: bool = True
) -> Lowering:
    """Groups of the graph as kernels; the flags say whether attentions, linear maps and products, convolutions are too.

    See the module. Without `products` those of weights stay, few rows or columns, and triangles. Depthwise convolutions
    are in any case.
    """
    if capture.mutations:
        return Lowering(capture, ())
    multiplied = (PRODUCTS if products else UNUSUAL_PRODUCTS) if linear else {}
    makers = (CONVOLVED if convolution else FILLED) | multiplied | RECURRENT
    return _Lowerer(capture, attention, linear, makers).lowered()


class _Lowerer:
    def __init__(self, capture: Capture, attention: bool, linear: bool, makers: Mapping[Any, Maker]) -> None:
        self.capture = capture
        self.attention = attention
        self.maps = linear
        self.makers = makers
        self.old = with_recurrent_layers(capture.graph.graph) if linear else capture.graph.graph
        places = zip(placeholders_of(self.old), capture.inputs, strict=True)
        self.weights = {place for place, border in places if border.role != "argument"}
        self.new = fx.Graph()
        self.env: dict[Node, Node] = {}
        self.fusions: dict[Fusion, str] = {}
        """Kernels by what they compute, nameless: equal layers of a model share theirs."""
        self.attentions: dict[Attention, str] = {}
        self.filled: dict[Filled | Convolution, str] = {}
        self.packings: dict[Filled, str] = {}
        self.repacked: dict[Packing, Node] = {}
        self.linears: dict[Linear, str] = {}
        self.packers: dict[PackedWeight, str] = {}
        self.packed: dict[tuple[Node, Node | None, int], Node] = {}
        """Packed weights by weight, bias and which way round the weight lies."""
        self.names: set[str] = set()
        self.prepared: dict[Source, Node] = {}

    def lowered(self) -> Lowering:
        order = {node: place for place, node in enumerate(self.old.nodes)}
        group_of: dict[Node, Group] = {}
        folded = {node for node in order if is_prepared(node)}
        self.weights |= folded
        filled = filled_calls(self.old, self.makers)
        mapped = linear_calls(self.old, self.weights, filled) if self.maps else {}
        within = {node for call in mapped.values() for node in call.covers}
        filled = {node: call for node, call in filled.items() if node not in within}
        taken = within | {node for call in filled.values() for node in call.covers}
        for group in groups_of(self.old, taken | folded):
            group_of |= dict.fromkeys(group.owned, group)
        for node in _sorted(order, group_of):
            if node in self.env:  # one of several results of a template's kernel
                continue
            group = group_of.get(node)
            own = group is None and node not in folded
            attended = attention_call(node) if own and self.attention else None
            if attended is not None:
                self._attend(node, attended)
            elif node in mapped:
                self._map(node, mapped[node])
            elif node in filled:
                self._fill(node, filled[node])
            elif group is None:
                self.env[node] = self.new.node_copy(node, lambda operand: self.env[operand])
            elif node is group.nodes[-1]:
                self._call(group)
        erase_dead(self.new)
        module = fx.GraphModule(self.capture.graph, self.new)
        fusions = tuple(replace(fusion, name=name) for fusion, name in self.fusions.items())
        attentions = tuple(replace(attention, name=name) for attention, name in self.attentions.items())
        templates = tuple(replace(kernel, name=name) for kernel, name in self.filled.items())
        packed = tuple(replace(packer, name=name) for packer, name in self.packers.items())
        packings = tuple(replace(packing, name=name) for packing, name in self.packings.items())
        made = replace(self.capture, graph=module)
        linears = tuple(replace(linear, name=name) for linear, name in self.linears.items())
        return Lowering(made, fusions, attentions, linears, packed, templates, packings)

    def _attend(self, node: Node, attended: AttentionCall) -> None:
        """An attention as one call."""
        if attended.kernel not in self.attentions:
            self.attentions[attended.kernel] = self._unused("attended")
        arguments = (*(self._ready(source) for source in attended.sources), *attended.numbers)
        self.env[node] = self._turned(
            self._called(self.attentions[attended.kernel], arguments, row_major(tensor_of(node), attended.order)),
            attended.order,
            node,
        )

    def _fill(self, node: Node, call: FilledCall) -> None:
        """A call of a template's kernel, and the values it gives."""
        if call.kernel not in self.filled:
            words = dict.fromkeys((word_of(node), call.kernel.template))
            self.filled[call.kernel] = self._unused("_".join(words))
        made = [row_major(tensor_of(result), range(tensor_of(result).ndim)) for result in call.results]
        packed = [self._repacked(call.packing)] if call.packing else []
        arguments = (*(self._ready(source) for source in call.sources), *packed, *call.sizes)
        kernel = self._called(self.filled[call.kernel], arguments, made[0] if len(made) == 1 else tuple(made))
        self.env.update(zip(call.results, self._results(kernel, made), strict=True))

    def _results(self, call: Node, made: Sequence[Tensor]) -> list[Node]:
        """The results of a kernel's call, each as a node."""
        if len(made) == 1:
            return [call]
        results = [self.new.call_function(operator.getitem, (call, number)) for number in range(len(made))]
        for result, value in zip(results, made, strict=True):
            result.meta["val"] = value
        return results

    def _map(self, node: Node, mapped: LinearCall) -> None:
        """A linear map and what follows as one call, and its weight packed beforehand."""
        if mapped.kernel not in self.linears:
            words = ["linear", *(word_of(member) for member in reversed(mapped.covers[:-1]))]
            self.linears[mapped.kernel] = self._unused("_".join(dict.fromkeys(words))[:48].strip("_"))
        read = [self._ready(Source(operand, None)) for operand in (mapped.x, *mapped.operands)]
        arguments = (*read, self._pack(mapped), mapped.rows, mapped.columns, mapped.inner)
        value = tensor_of(node)
        self.env[node] = self._called(self.linears[mapped.kernel], arguments, row_major(value, range(value.ndim)))

    def _pack(self, mapped: LinearCall) -> Node:
        key = (mapped.weight, mapped.bias, mapped.inner_step)
        if key not in self.packed:
            packer = PackedWeight(mapped.bias is not None)
            if packer not in self.packers:
                self.packers[packer] = self._unused("pack_weight_and_bias" if packer.bias else "pack_weight")
            tensors = [self.env[item] for item in (mapped.weight, mapped.bias) if item is not None]
            numbers = (mapped.columns, mapped.inner, mapped.column_step, mapped.inner_step)
            call = self.new.call_function(KernelCall(self.packers[packer], prepared=True), (*tensors, *numbers))
            elements = packed_elements(mapped.columns, mapped.inner)
            call.meta["val"] = faked(tensor_of(mapped.weight), lambda: torch.empty(elements))
            self.packed[key] = call
        return self.packed[key]

    def _repacked(self, packing: Packing) -> Node:
        """Weights in the order in which a template's kernel reads them, beforehand where nothing else changes them."""
        if packing not in self.repacked:
            if packing.kernel not in self.packings:
                self.packings[packing.kernel] = self._unused(f"pack_{packing.kernel.template}")
            target = KernelCall(self.packings[packing.kernel], prepared=packing.weight in self.weights)
            given = self.env[packing.weight] if target.prepared else self._ready(Source(packing.weight, None))
            call = self.new.call_function(target, (given,))
            call.meta["val"] = faked(tensor_of(packing.weight), lambda: torch.empty(packing.elements))
            self.repacked[packing] = call
        return self.repacked[packing]

    def _called(self, name: str, arguments: tuple[Any, ...], value: Any) -> Node:
        with warnings.catch_warnings():  # of symbolic sizes among the arguments, which KernelCall allows
            warnings.simplefilter("ignore", UserWarning)
            call = self.new.call_function(KernelCall(name), arguments)
        call.meta["val"] = value
        return call

    def _call(self, group: Group) -> None:
        """The group as one call, and its results as the rest of the graph knows them."""
        emission = emitted(group)
        if emission.fusion not in self.fusions:
            self.fusions[emission.fusion] = self._name(group)
        orders = [memory_order(tensor_of(node)) or () for node in group.results]
        made = [row_major(tensor_of(node), order) for node, order in zip(group.results, orders, strict=True)]
        arguments = (*(self._ready(source) for source in emission.sources), *emission.sizes)
        call = self._called(self.fusions[emission.fusion], arguments, made[0] if len(made) == 1 else tuple(made))
        for node, order, result in zip(group.results, orders, self._results(call, made), strict=True):
            self.env[node] = self._turned(result, order, node)

    def _ready(self, source: Source) -> Node:
        """A node whose memory is exactly that of the operand as the kernel reads it."""
        if source not in self.prepared:
            self.prepared[source] = self._prepared(source)
        return self.prepared[source]

    def _prepared(self, source: Source) -> Node:
        node, value = self.env[source.node], tensor_of(source.node)
        if source.order is not None:
            order = list(source.order)
            node = self.new.call_function(aten.permute.default, (node, order))
            node.meta["val"] = faked(value, lambda: tensor_of(source.node).permute(order))
            value = tensor_of(node)
        maker = node.args[0] if node.target is operator.getitem else node
        if isinstance(maker, Node) and isinstance(maker.target, KernelCall):
            return node
        given = node.op == "placeholder" and is_contiguous(value)  # the printed module sees to arguments
        if given or node.target in _ROW_MAJOR:
            return node
        # What a library makes may lie in memory in another order than its fake said: as a rule this copies nothing.
        copy = self.new.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        copy.meta["val"] = row_major(value, range(value.ndim))
        return copy

    def _turned(self, result: Node, order: Sequence[int], node: Node) -> Node:
        """The result with its dimensions in the order that the graph had them, and so with the strides it had."""
        if list(order) == list(range(len(order))):
            return result
        inverse = [list(order).index(dim) for dim in range(len(order))]
        turned = self.new.call_function(aten.permute.default, (result, inverse))
        turned.meta["val"] = tensor_of(node)
        return turned

    def _name(self, group: Group) -> str:
        """A kernel's name from what it does: its most telling operators."""
        own = [node for node in group.nodes if group.rules[node].uses and not group.rules[node].view]
        heavy = [node for node in own if group.rules[node].heavy or group.rules[node].reduced]
        chosen = own if len(own) <= 4 else [own[0], *heavy[:2], own[-1]]
        base = "_".join(dict.fromkeys(["fused", *(word_of(node) for node in chosen)]))[:48].strip("_")
        return self._unused(base)

    def _unused(self, base: str) -> str:
        name, count = base, 1
        while name in self.names:
            count += 1
            name = f"{base}_{count}"
        self.names.add(name)
        return name


def _sorted(order: Mapping[Node, int], group_of: Mapping[Node, Group]) -> list[Node]:
    """The nodes in an order in which a group's nodes stand together and follow all that the group reads."""
    done: set[Node] = set()
    found: list[Node] = []
    for start in order:
        waiting = [start]
        while waiting:
            node = waiting[-1]
            if node in done:
                waiting.pop()
                continue
            group = group_of.get(node)
            members = group.owned if group else (node,)
            reading = {*members, *group.nodes} if group else {node}
            needs = {operand for member in reading for operand in member.all_input_nodes} - reading
            missing = [need for need in sorted(needs, key=order.__getitem__) if need not in done]
            if missing:
                waiting += reversed(missing)
                continue
            found += members
            done |= set(members)
            waiting.pop()
    return found
