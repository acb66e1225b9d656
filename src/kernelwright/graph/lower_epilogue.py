"""A sum and the elementwise operators after it that become one kernel (see loops/epilogue.py)."""

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from torch.fx.node import Node

from kernelwright.errors import LoweringError
from kernelwright.graph.lower_filled import scalar_of
from kernelwright.graph.lower_rule import Rule, Use, apply, each
from kernelwright.graph.lower_rules import rule_of
from kernelwright.graph.node import expression, same_sizes, shape_of
from kernelwright.loops import SUM, Epilogue, Expression, Let, Op, Read, Reduction, ScalarType, Variable

MOST_FOLLOWING = 24
"""Operators after a sum that are looked at."""
_FLOAT = ScalarType.FLOAT32

Along = Callable[[Use, Sequence[tuple[int, ...]], Sequence[Any]], str]
"""What tells an element of an operand that is wide along some dimensions of a space, but not a whole one (see Read); ""
where the kernel has no name for it."""


class Following:
    """The operators after `node` that make an element of one of its result's, none of them `taken`: all but the last
    are used by others of them alone."""

    def __init__(self, node: Node, along: Along, taken: Collection[Node] = ()) -> None:
        self.node = node
        self.space = shape_of(node)
        self.along = along
        self.reads: dict[Node, Read] = {}
        self.steps: list[Let] = []
        self.members = self._chosen(taken)
        """The node first."""

    @property
    def last(self) -> Node:
        return self.members[-1]

    @property
    def operands(self) -> tuple[Node, ...]:
        """What the epilogue reads, known once it is made."""
        return tuple(self.reads)

    def epilogue(self, bias: tuple[Node, str] | None = None) -> Epilogue:
        """What becomes of a sum, to which first a bias is added that is told by a place."""
        start: Expression = SUM
        if bias is not None:
            start = self._step(apply(Op.ADD, start, self._read(*bias)))
        values: dict[Node, Expression] = {self.node: start}
        for member in self.members[1:]:
            rule = rule_of(member)
            if rule is None:  # a batch norm, whose first result is a member of its own
                continue
            operands = [
                values[use.node] if use.node in values else self._read(use.node, self._place(use)) for use in rule.uses
            ]
            value = rule.compute(operands, _no_reduction, lambda _, value: self._step(value))
            values[member] = self._step(value)
        return Epilogue(tuple(self.reads.values()), tuple(self.steps), values[self.last])

    def _chosen(self, taken: Collection[Node]) -> list[Node]:
        found: dict[Node, Rule | None] = {self.node: None}
        after = self.node.next
        while after.op != "output" and len(found) <= MOST_FOLLOWING:
            made = cast(Node, after.args[0]) if after.target is operator.getitem else after
            rule = None if after in taken or made in taken else rule_of(after)
            if rule is not None and self._follows(after, rule, found):
                found[made] = None
                found[after] = rule
            after = after.next
        for last in reversed(found):
            needed = {last}
            for node in reversed(found):
                if node in needed:
                    needed |= {operand for operand in node.all_input_nodes if operand in found}
            if self.node in needed and all(set(node.users) <= needed for node in needed - {last}):
                return [node for node in found if node in needed]
        return [self.node]

    def _follows(self, node: Node, rule: Rule, found: dict[Node, Rule | None]) -> bool:
        """Whether the operator makes an element of its result of one of the sums'."""
        own = each(self.space)
        inside = [use for use in rule.uses if use.node in found]
        outside = [use for use in rule.uses if use.node not in found]
        return (
            not rule.reduced
            and not rule.view
            and same_sizes(rule.space, self.space)
            and rule.result == own
            and scalar_of(node) is _FLOAT
            and bool(inside)
            and all(use.lies == own for use in inside)
            and all(scalar_of(use.node) is _FLOAT and self._place(use) for use in outside)
        )

    def _place(self, use: Use) -> str:
        """What tells an element of the operand; "" where nothing does."""
        if _is_whole(use, self.space):
            return "index"
        wide = _wide_dimensions(use)
        return "" if wide is None else self.along(use, wide, self.space) if wide else "0"

    def _read(self, node: Node, along: str) -> Variable:
        self.reads.setdefault(node, Read(f"r{len(self.reads)}", _FLOAT, along))
        return Variable(self.reads[node].name, _FLOAT)

    def _step(self, value: Expression) -> Variable:
        variable = Variable(f"v{len(self.steps)}", value.type)
        self.steps.append(Let(variable, value))
        return variable


def _wide_dimensions(use: Use) -> list[tuple[int, ...]] | None:
    """The dimensions of the space that the operand's dimensions of more than one element lie on.

    None where it holds elements in another shape.
    """
    if use.lies is None:
        return None
    shape = shape_of(use.node)
    return [lies for size, lies in zip(shape, use.lies, strict=True) if expression(size) != 1]


def _is_whole(use: Use, space: Sequence[Any]) -> bool:
    """Whether the operand has an element for each of the space, in its order."""
    return use.lies == each(space) and same_sizes(shape_of(use.node), space)


def _no_reduction(name: str, value: Expression, reduction: Reduction) -> Expression:
    raise LoweringError(f"{name} is no elementwise operator")
