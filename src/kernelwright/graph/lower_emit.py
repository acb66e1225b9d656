"""A group as a Fusion of loops/: its operands' strides, its steps, its results, and what a call of it passes."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._guards import detect_fake_mode
from torch.fx.node import Node

from kernelwright.graph.lower_groups import Group
from kernelwright.graph.lower_layout import Place, memory_order, operand_place
from kernelwright.graph.lower_rule import SCALARS
from kernelwright.graph.node import VIEWS, example_size, expression, shape_of, tensor_of
from kernelwright.loops import (
    Apply,
    Cast,
    Constant,
    Expression,
    Fusion,
    Op,
    Operand,
    Reduction,
    Result,
    ScalarType,
    Size,
    Step,
    Variable,
)
from kernelwright.loops.expressions import rewritten, variables, walk


@dataclass(frozen=True)
class Source:
    """A tensor whose whole memory a kernel is given."""

    node: Node
    order: tuple[int, ...] | None
    """The permutation of its dimensions that makes it row-major; None where it is already or is to be copied so."""


@dataclass(frozen=True)
class Emission:
    """A kernel without a name, and what its call passes after the outputs."""

    fusion: Fusion
    sources: tuple[Source, ...]
    sizes: tuple[Any, ...]
    """SymInts."""


@dataclass
class _Array:
    """An operand or a result: its stride along each dimension of the domain."""

    name: str
    type: ScalarType
    along: list[Any]
    offset: int = 0
    row: bool = False


def emitted(group: Group) -> Emission:
    """The group as a Fusion. Names in it do not depend on the graph, so that equal groups give equal fusions.

    Dimensions of the domain that no tensor tells apart are merged; in groups without reductions they are ordered by
    the first result's memory.
    """
    return _Emitter(group).emission()


class _Emitter:
    def __init__(self, group: Group) -> None:
        self.group = group
        self.layout = group.layout
        self.reduces = any(rule.reduced for rule in group.rules.values())
        self.sources: list[Source] = []
        self.operands: list[_Array] = []
        self.loaded: dict[Any, Variable] = {}
        self.steps: list[Step] = []
        self.taken: set[str] = set()
        self.values: dict[Node, Expression] = {}
        self.sizes: dict[Any, Any] = {}

    def emission(self) -> Emission:
        for node in self.group.nodes:
            self._emit(node)
        results = [self._result(node, number) for number, node in enumerate(self.group.results)]
        written = [self._written(node) for node in self.group.results]
        dims, inner = self._merged(results)
        named_dims = tuple(self._size(size) for size in dims)
        outer = len(dims) - inner
        operands = tuple(Operand(a.name, a.type, self._strides(a), a.offset) for a in self.operands)
        fusion = Fusion(
            name="",
            dims=named_dims,
            inner=inner,
            operands=operands,
            steps=tuple(self.steps),
            results=tuple(
                Result(a.name, a.type, step, self._strides(a)[:outer] if a.row else self._strides(a), a.row)
                for a, step in zip(results, written, strict=True)
            ),
            sizes=tuple(f"n{number}" for number in range(len(self.sizes))),
            note=self._note(named_dims, inner),
        )
        return Emission(fusion, tuple(self.sources), tuple(self.sizes.values()))

    # ---- values -------------------------------------------------------------------------------------------------

    def _emit(self, node: Node) -> None:
        rule, space = self.group.rules[node], self.layout.spaces[node]
        operands: list[Expression] = []
        for number, use in enumerate(rule.uses):
            if use.node in self.values:
                operands.append(self.values[use.node])
                continue
            place = operand_place(node, number, self.group.rules, space, self.layout.dims)
            assert place is not None  # layout() saw to it
            operands.append(self._load(use.node, place))
        if rule.view:
            self.values[node] = operands[0]
            return
        word = word_of(node)

        def reduce(name: str, value: Expression, reduction: Reduction) -> Expression:
            return self._step(f"{word}_{name}", value, reduction)

        def keep(name: str, value: Expression) -> Expression:
            return value if isinstance(value, (Variable, Constant)) else self._step(f"{word}_{name}", value)

        value = rewritten(rule.compute(operands, reduce, keep), self._rounded_once)
        self.values[node] = value if isinstance(value, (Variable, Constant)) else self._step(word, value)

    def _rounded_once(self, value: Expression) -> Expression | None:
        """The root of what float64 made of a row's sums, not rounded before it as well: so is torch's deviation."""
        match value:
            case Apply(Op.SQRT, (Variable(name),)):
                made = next((step.value for step in self.steps if step.name == name), None)
            case _:
                return None
        if not isinstance(made, Cast) or made.to is not ScalarType.FLOAT32:
            return None
        sums = {
            step.name for step in self.steps if step.reduction is not None and step.value.type is ScalarType.FLOAT64
        }
        return Cast(made.to, Apply(Op.SQRT, (made.operand,))) if variables(made.operand) <= sums else None

    def _step(self, hint: str, value: Expression, reduction: Reduction | None = None) -> Variable:
        value = self._without_repeats(hint, value)
        name, count = hint, 1
        while name in self.taken or name in _RESERVED:
            count += 1
            name = f"{hint}_{count}"
        self.taken.add(name)
        self.steps.append(Step(name, value, reduction))
        return Variable(name, value.type)

    def _without_repeats(self, hint: str, value: Expression) -> Expression:
        """The expression with compound parts that stand in it more than once as steps of their own."""
        while True:
            parts = [part for part in walk(value) if not isinstance(part, (Variable, Constant))]
            repeated = next((part for part in parts if parts.count(part) > 1), None)
            if repeated is None:
                return value
            named = self._step(f"{hint}_part", repeated)
            value = rewritten(value, lambda part, old=repeated, new=named: new if part == old else None)

    def _written(self, node: Node) -> str:
        """The name of the step that holds a result; a constant or an operand becomes one."""
        value = self.values[node]
        if isinstance(value, Variable) and value.name in self.taken:
            return value.name
        return self._step(word_of(node), value).name

    def _load(self, node: Node, place: Place) -> Variable:
        """An operand from outside: through its views to the memory they show, where that is dense."""
        value, base = tensor_of(node), _base(node)
        order = memory_order(tensor_of(base))
        offset = expression(value.storage_offset()) - expression(tensor_of(base).storage_offset())
        if order is None or not isinstance(offset, int):
            base, order, offset, strides = node, None, 0, row_major_strides(shape_of(node))
        else:
            strides = tuple(value.stride())
            order = None if order == tuple(range(len(order))) else order
        source = Source(base, order)
        along = self._along(place, strides)
        key = (source, tuple(expression(stride) for stride in along), offset)
        if key not in self.loaded:
            array = _Array(f"x{len(self.operands)}", SCALARS[value.dtype], along, offset)
            self.sources.append(source)
            self.operands.append(array)
            self.loaded[key] = Variable(array.name, array.type.compute)
        return self.loaded[key]

    def _along(self, place: Place, strides: Sequence[Any]) -> list[Any]:
        """A tensor's strides along the domain, from its strides and the place it lies at."""
        along: list[Any] = [0] * len(self.layout.dims)
        for covered, stride in zip(place, strides, strict=True):
            for dim in reversed(covered):
                along[dim] = stride
                stride = stride * self.layout.dims[dim]
        return along

    def _result(self, node: Node, number: int) -> _Array:
        value = tensor_of(node)
        along = self._along(self.layout.results[node], value.stride())
        row = self.reduces and self.layout.covers(node) == "row"
        return _Array(f"out{number}", SCALARS[value.dtype], along, row=row)

    # ---- the domain ---------------------------------------------------------------------------------------------

    def _merged(self, results: Sequence[_Array]) -> tuple[list[Any], int]:
        """The domain with dimensions merged and ordered, and how many are inner; the arrays' strides follow."""
        dims, inner = list(self.layout.dims), self.layout.inner
        arrays = [*self.operands, *results]
        if not self.reduces:
            order = sorted(range(len(dims)), key=lambda dim: -example_size(results[0].along[dim]))
            dims = [dims[dim] for dim in order]
            for array in arrays:
                array.along = [array.along[dim] for dim in order]
        if not dims or (self.reduces and not inner):  # one element, or rows of one
            dims.append(1)
            inner = 1
            for array in arrays:
                array.along.append(0)
        boundary = len(dims) - inner if self.reduces else -1
        for dim in range(len(dims) - 2, -1, -1):
            if dim + 1 == boundary:
                continue
            if all(_continues(array.along[dim], array.along[dim + 1], dims[dim + 1]) for array in arrays):
                dims[dim : dim + 2] = [dims[dim] * dims[dim + 1]]
                for array in arrays:
                    del array.along[dim]
                if dim < boundary:
                    boundary -= 1
        return dims, len(dims) - boundary if self.reduces else 1

    def _strides(self, array: _Array) -> tuple[Size, ...]:
        return tuple(self._size(stride) for stride in array.along)

    def _size(self, size: Any) -> Size:
        """A size or stride as the kernel's text has it: a number, or the name of a parameter."""
        value = expression(size)
        if isinstance(value, int):
            return value
        self.sizes.setdefault(value, size)
        return f"n{list(self.sizes).index(value)}"

    def _note(self, dims: tuple[Size, ...], inner: int) -> str:
        words = [word_of(node) for node in self.group.nodes if not self.group.rules[node].view]
        rows, row = (" x ".join(map(str, part)) for part in (dims[: len(dims) - inner], dims[len(dims) - inner :]))
        shape = f"{rows or 1} rows of {row}" if self.reduces or len(dims) > 1 else f"{row} elements"
        return f"{', '.join(words)}\n{shape}"


def row_major(value: Tensor, order: Sequence[int]) -> Tensor:
    """A fake row-major tensor with the dimensions of `value` in another order."""
    shape = [value.shape[dim] for dim in order]
    return faked(value, lambda: torch.empty(shape, dtype=value.dtype, device=value.device))


def faked(value: Tensor, make: Callable[[], Tensor]) -> Tensor:
    """`make()` under the mode that `value` belongs to."""
    mode = detect_fake_mode([value])
    if mode is None:
        return make()
    with mode, torch.no_grad():
        return make()


def word_of(node: Node) -> str:
    """The operator in a word: "add", "layer_norm", "softmax"."""
    if node.target is operator.getitem and isinstance(node.args[0], Node):
        return word_of(node.args[0])
    name = getattr(node.target, "__name__", str(node.target)).split(".")[0].strip("_")
    return name.removeprefix("native_").removesuffix("_legit_no_training")


def _base(node: Node) -> Node:
    """The node whose memory a chain of views shows, in the same dtype."""
    while node.op == "call_function" and node.target in VIEWS and isinstance(source := node.args[0], Node):
        if node.target is operator.getitem:
            if source.target not in VIEWS or not isinstance(source.args[0], Node):
                return node
            source = source.args[0]
        if not isinstance(source.meta["val"], Tensor) or source.meta["val"].dtype != node.meta["val"].dtype:
            return node
        node = source
    return node


def row_major_strides(shape: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = []
    stride: Any = 1
    for size in reversed(shape):
        strides.insert(0, stride)
        stride = stride * size
    return tuple(strides)


def _continues(outer: Any, inner: Any, size: Any) -> bool:
    """Whether a step of the outer dimension is all the steps of the inner one."""
    return expression(outer) == expression(inner * size)


# Words of C++ and of the prelude that an operator may be called.
_RESERVED = frozenset(
    {"and", "or", "not", "xor", "bool", "char", "double", "float", "half", "int", "long", "short", "kernel"}
)
