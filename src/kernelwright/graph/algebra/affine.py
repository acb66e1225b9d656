"""Linear maps and convolutions, and chains of per-channel scales and shifts behind them."""

import operator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.algebra.weights import is_weight, plus, prepared, shaped, times, wide
from kernelwright.graph.node import same_size, same_sizes, shape_of, tensor_of

aten = torch.ops.aten

_FLOATS = (torch.float32, torch.float64)
"""Of 16-bit types a chain rounds after every step, and one step in its place may not."""


@dataclass(frozen=True)
class Linear:
    """x (..., in) times weight (out, in) transposed, plus bias (out)."""

    node: Node
    x: Node
    weight: Node
    bias: Node | None
    turned: bool = False
    """Whether the weight node is (in, out)."""

    @property
    def channel(self) -> int:
        return len(shape_of(self.node)) - 1

    @property
    def channels(self) -> int:
        return int(shape_of(self.node)[-1])

    def wide_weight(self) -> Node:
        """(out, in) in float64."""
        weight = wide(self.weight)
        return prepared(weight, aten.permute.default, weight, [1, 0]) if self.turned else weight


@dataclass(frozen=True)
class Convolution:
    """A convolution, transposed or not, with numbers for each spatial axis."""

    node: Node
    x: Node
    weight: Node
    bias: Node | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int

    channel = 1

    @property
    def channels(self) -> int:
        return int(shape_of(self.node)[1])

    @property
    def taps(self) -> tuple[int, ...]:
        """The window's size along each axis."""
        return tuple(int(size) for size in shape_of(self.weight)[2:])


Map = Linear | Convolution


@dataclass(frozen=True)
class Affine:
    """`map`'s result times `scale` plus `shift`: numbers, or float64 vectors of its channels that are prepared."""

    map: Map
    scale: Node | float = 1.0
    shift: Node | float = 0.0
    steps: int = 0

    def scaled_weight(self) -> Node:
        """The map's weight in float64 with the scale in it: (out, in) of a linear map."""
        weight = self.map.wide_weight() if isinstance(self.map, Linear) else wide(self.map.weight)
        if not isinstance(self.scale, Node):
            return times(weight, self.scale)
        sizes = [1] * len(shape_of(weight))
        place = 1 if isinstance(self.map, Convolution) and self.map.transposed else 0
        sizes[place] = self.map.channels
        return times(weight, shaped(self.scale, sizes))

    def shifted_bias(self) -> Node | None:
        """The bias in float64 with scale and shift; None where that is nothing."""
        bias = self.map.bias
        if bias is not None:
            return plus(times(wide(bias), self.scale), self.shift)
        if isinstance(self.shift, Node):
            return self.shift
        if self.shift == 0.0:
            return None
        weight = wide(self.map.weight)
        return prepared(weight, aten.new_full.default, weight, [self.map.channels], self.shift)


def map_of(node: Node) -> Map | None:
    """The node as a linear map or convolution by weights, of a dtype that is safe to reorder."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    if tensor_of(node).dtype not in _FLOATS:
        return None
    found = _linear(node) or _convolution(node)
    if found is None or not is_weight(found.weight) or not (found.bias is None or is_weight(found.bias)):
        return None
    return found


def affine_of(node: Node) -> Affine | None:
    """The longest chain of per-channel steps that ends in the node and begins at a map nobody else uses."""
    steps: list[Node] = []
    start = node
    while (found := map_of(start)) is None:
        operand = _operand(start)
        if operand is None or len(operand.users) != 1:
            return None
        steps.append(start)
        start = operand
        if start.target is aten._native_batch_norm_legit_no_training.default:
            operand = cast(Node, start.args[0])
            if len(operand.users) != 1:
                return None
            start = operand
    chain: Affine | None = Affine(found)
    for step in reversed(steps):
        chain = _with(chain, step)
        if chain is None:
            return None
    return chain


def _linear(node: Node) -> Linear | None:
    args: Any = node.args
    if node.target is aten.linear.default:
        found = Linear(node, args[0], args[1], args[2] if len(args) > 2 else None)
    elif node.target in (aten.matmul.default, aten.mm.default):
        found = Linear(node, args[0], args[1], None, turned=True)
    elif node.target is aten.addmm.default and not node.kwargs:
        found = Linear(node, args[1], args[2], args[0], turned=True)
    else:
        return None
    if len(shape_of(found.weight)) != 2 or (found.bias is not None and len(shape_of(found.bias)) != 1):
        return None
    if len(shape_of(found.x)) < 2 or is_weight(found.x) or not isinstance(shape_of(node)[-1], int):
        return None
    if found.turned and found.weight.target is aten.permute.default:  # of (out, in)
        return replace(found, weight=cast(Node, found.weight.args[0]), turned=False)
    return found


def _convolution(node: Node) -> Convolution | None:
    if node.target is not aten.convolution.default:
        return None
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = cast(tuple[Any, ...], node.args)
    rank = len(shape_of(x)) - 2

    def each(numbers: Any) -> tuple[int, ...]:
        return tuple(numbers) * rank if len(numbers) == 1 else tuple(numbers)

    if any(not isinstance(size, int) for size in (*shape_of(x)[1:], *shape_of(node)[1:])) or is_weight(x):
        return None
    if transposed and groups != 1:  # whose weight has no dimension of all its outputs
        return None
    return Convolution(
        node,
        x,
        weight,
        bias,
        each(stride),
        each(padding),
        each(dilation),
        bool(transposed),
        each(output_padding),
        groups,
    )


def _operand(node: Node) -> Node | None:
    """What a per-channel step is applied to; for a batch norm its own node."""
    if node.target is operator.getitem and node.args[1] == 0:
        source = cast(Node, node.args[0])
        return source if source.target is aten._native_batch_norm_legit_no_training.default else None
    if node.target in _BINARY and not node.kwargs and len(node.args) == 2:
        tensors = [item for item in node.args if isinstance(item, Node) and not is_weight(item)]
        if len(tensors) == 1 and (node.args[0] is tensors[0] or node.target in _COMMUTES):
            return tensors[0]
    return tensor if node.target is aten.neg.default and isinstance(tensor := node.args[0], Node) else None


_BINARY = {aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor}
_COMMUTES = {aten.mul.Tensor, aten.add.Tensor}


def _with(chain: Affine | None, step: Node) -> Affine | None:
    if chain is None or not same_sizes(shape_of(step), shape_of(chain.map.node)):
        return None
    if step.target is aten.neg.default:
        return _scaled(chain, -1.0)
    if step.target is operator.getitem:
        if chain.map.channel != 1:
            return None
        _, weight, bias, mean, var, _, eps = cast(tuple[Any, ...], cast(Node, step.args[0]).args)
        if not all(item is None or is_weight(item) for item in (weight, bias, mean, var)):
            return None
        root = prepared(var, aten.sqrt.default, plus(wide(var), float(eps)))
        gain = prepared(root, aten.reciprocal.default, root)
        gain = times(gain, wide(weight)) if weight is not None else gain
        chain = _scaled(chain, gain)
        center = times(times(wide(mean), gain), -1.0)
        return _shifted(chain, plus(center, wide(bias)) if bias is not None else center)
    other = next(item for item in step.args if not isinstance(item, Node) or is_weight(item))
    value = _vector(other, chain)
    if value is None or tensor_of(step).dtype != tensor_of(chain.map.node).dtype:
        return None
    if step.target is aten.mul.Tensor:
        return _scaled(chain, value)
    if step.target is aten.add.Tensor:
        return _shifted(chain, value)
    if step.target is aten.sub.Tensor:
        return _shifted(chain, times(value, -1.0) if isinstance(value, Node) else -value)
    if isinstance(value, Node):
        return _scaled(chain, prepared(value, aten.reciprocal.default, value))
    return _scaled(chain, 1.0 / value) if value else None


def _vector(value: Any, chain: Affine) -> Node | float | None:
    """A number, or a weight with one value for each channel as a float64 vector."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, Node):
        return None
    shape, rank = list(shape_of(value)), len(shape_of(chain.map.node))
    full = [1] * (rank - len(shape)) + shape
    if len(full) != rank or any(not same_size(size, 1) for dim, size in enumerate(full) if dim != chain.map.channel):
        return None
    vector = shaped(wide(value), [int(full[chain.map.channel])])
    channels = chain.map.channels
    return vector if shape_of(vector) == (channels,) else prepared(vector, aten.expand.default, vector, [channels])


def _scaled(chain: Affine, factor: Node | float) -> Affine:
    return replace(
        chain, scale=_product(chain.scale, factor), shift=_product(chain.shift, factor), steps=chain.steps + 1
    )


def _shifted(chain: Affine, term: Node | float) -> Affine:
    return replace(chain, shift=_total(chain.shift, term), steps=chain.steps + 1)


def _product(left: Node | float, right: Node | float) -> Node | float:
    if isinstance(left, Node):
        return times(left, right)
    if isinstance(right, Node):
        return 0.0 if left == 0.0 else times(right, left)
    return left * right


def _total(left: Node | float, right: Node | float) -> Node | float:
    if isinstance(left, Node):
        return plus(left, right)
    return plus(right, left) if isinstance(right, Node) else left + right
