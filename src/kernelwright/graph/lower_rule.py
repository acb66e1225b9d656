"""The form of a rule: what one node of a graph computes for each element, and where its operands lie."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.loops import Apply, Cast, Constant, Expression, Op, Reduction, ScalarType

SCALARS = {
    torch.bool: ScalarType.BOOL,
    torch.int32: ScalarType.INT32,
    torch.int64: ScalarType.INT64,
    torch.float16: ScalarType.FLOAT16,
    torch.bfloat16: ScalarType.BFLOAT16,
    torch.float32: ScalarType.FLOAT32,
    torch.float64: ScalarType.FLOAT64,
}

Reduce = Callable[[str, Expression, Reduction], Expression]
"""Adds a reduction step (a name hint, the value, how) and gives its result."""
Keep = Callable[[str, Expression], Expression]
"""Adds a step for a value that is used more than once and gives it back by name."""


@dataclass(frozen=True)
class Use:
    """A tensor operand of a rule."""

    node: Node
    lies: tuple[tuple[int, ...], ...] | None
    """For each of its dimensions the dimensions of the space it lies on, outer first; None: it holds the space's
    elements in another shape."""


@dataclass(frozen=True)
class Rule:
    """What one node computes. See the module."""

    space: tuple[Any, ...]
    uses: tuple[Use, ...]
    result: tuple[tuple[int, ...], ...] | None
    """The same for the result; a reduced dimension that is kept lies on none."""
    compute: Callable[[Sequence[Expression], Reduce, Keep], Expression]
    """The result of one element from the operands' elements, in the order of `uses`."""
    reduced: tuple[int, ...] = ()
    view: bool = False
    """Whether it only renames elements."""
    heavy: bool = False
    """Whether the node alone is worth a kernel: torch's own makes several passes or does not vectorise well."""


def cast(value: Expression, to: ScalarType) -> Expression:
    """The value in the compute type of `to`."""
    return value if value.type is to.compute else Cast(to.compute, value)


def const(value: float | int | bool, type: ScalarType) -> Constant:
    return Constant(value, type.compute)


def apply(op: Op, *operands: Expression) -> Apply:
    return Apply(op, operands)


def times(value: Expression, factor: float) -> Expression:
    return value if factor == 1 else apply(Op.MUL, value, const(factor, value.type))


def plus(value: Expression, term: float) -> Expression:
    return value if term == 0 else apply(Op.ADD, value, const(term, value.type))


def shape_of_value(value: Any) -> tuple[Any, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def each(space: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Every dimension on its own."""
    return tuple((dim,) for dim in range(len(space)))


def right_aligned(shape: Sequence[Any], space: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """As broadcasting lays a tensor: on the last dimensions."""
    return each(space)[len(space) - len(shape) :]
