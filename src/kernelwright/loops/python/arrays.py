"""Parts of arrays: indices with their checks, slices, and elements that are read."""

import ast

from kernelwright.loops.expressions import Apply, Constant, Expression, Load, Op, Select, Variable, plus
from kernelwright.loops.nest import Let
from kernelwright.loops.program import Command, Index
from kernelwright.loops.python import arithmetic as rules
from kernelwright.loops.python.builder import Builder
from kernelwright.loops.python.promotion import BOOL, I64, cast
from kernelwright.loops.python.source import Source
from kernelwright.loops.python.values import ZERO, Span, Value, View


class Arrays:
    """What expressions of one function stand on. `names` says what its local names stand for at this place."""

    def __init__(self, source: Source, builder: Builder) -> None:
        self.source = source
        self.builder = builder
        self.names: dict[str, Value] = {}
        self.variables: dict[str, str] = {}
        """The variables of the program that local names are."""

    # ---- helpers ------------------------------------------------------------------------------------------------

    def refuse(self, node: ast.AST, what: str, instead: str) -> Exception:
        return self.source.refuse(node, what, instead)

    def bound(self, value: Expression) -> Expression:
        """The value under a name that never changes."""
        fixed = self.builder.immutable | self.builder.lets
        if isinstance(value, Constant) or (isinstance(value, Variable) and value.name in fixed):
            return value
        variable = self.builder.fresh(value.type)
        self.builder.emit(Let(variable, value))
        return variable

    def named(self, value: Expression) -> Expression:
        """The value, so that it may stand in an expression several times."""
        return value if isinstance(value, Variable) else self.bound(value)

    def scalar(self, node: ast.expr) -> Expression:
        value = self.value(node)
        if isinstance(value, tuple):
            raise self.refuse(node, "several values stand where one number is expected", "a number")
        return self.element(value, node)

    def element(self, value: Expression | View, node: ast.AST) -> Expression:
        """The number; a view without axes is read."""
        if not isinstance(value, View):
            return value
        if value.open_axes:
            name = value.buffer.name.removesuffix("_")
            raise self.refuse(
                node,
                f"a whole array (of {name}, {len(value.open_axes)} axes left) stands where a number is expected",
                "one index per axis, or a loop over the elements",
            )
        self.builder.read.add(value.array)
        return self.bound(Load(value.buffer, value.place))

    def whole_number(self, node: ast.expr, what: str) -> Expression:
        value = self.scalar(node)
        if value.type.floating:
            raise self.refuse(node, f"{what} is a {value.type.value}", "a whole number; convert by int(...)")
        return cast(value, I64)

    def apart(self, node: ast.expr) -> tuple[Expression, tuple[Command, ...]]:
        """The scalar and what has to run first, which is not emitted."""
        before = self.builder.block
        self.builder.block = inner = []
        try:
            return self.scalar(node), tuple(inner)
        finally:
            self.builder.block = before

    def value(self, node: ast.expr) -> Value:
        """What the expression stands for."""
        raise NotImplementedError

    # ---- arrays -------------------------------------------------------------------------------------------------

    def subscript(self, owner: Value, index: ast.expr, node: ast.expr) -> Value:
        if isinstance(owner, tuple):
            number = self.scalar(index)
            if not isinstance(number, Constant) or not -len(owner) <= number.value < len(owner):
                raise self.refuse(node, "this place of a tuple is not known beforehand", "a constant place")
            return owner[int(number.value)]
        if not isinstance(owner, View):
            raise self.refuse(node, "an index into a number", "indices into arrays")
        view = self.part(owner, index, node)
        return view if view.open_axes else self.element(view, node)

    def part(self, view: View, index: ast.expr, node: ast.AST) -> View:
        """view[index], checked."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        parts = self._filled(view, parts)
        axes = view.open_axes
        if len(parts) > len(axes):
            name = view.buffer.name.removesuffix("_")
            raise self.refuse(node, f"{len(parts)} indices into {len(axes)} axes of {name}", "one index per axis")
        for number, (axis, part) in enumerate(zip(axes, parts, strict=False)):
            span = view.axes[axis]
            assert isinstance(span, Span)
            if isinstance(part, ast.Slice):
                view = view.replaced(axis, self._span(span, part))
                continue
            given = self.value(part)
            if isinstance(given, tuple) or (isinstance(given, View) and given.open_axes):
                raise self.refuse(part, "an array as an index", "whole numbers and slices; loop over the indices")
            value = self.element(given, part)
            if value.type.floating or value.type is BOOL:
                raise self.refuse(part, f"an index of type {value.type.value}", "whole numbers; convert by int(...)")
            place = self._place(cast(value, I64), span, view, axes[number], part)
            view = view.fixed(axis, place)
        return view

    def _filled(self, view: View, parts: list[ast.expr]) -> list[ast.expr]:
        """Without the ellipsis."""
        for number, part in enumerate(parts):
            if isinstance(part, ast.Constant) and part.value is Ellipsis:
                missing = len(view.open_axes) - len(parts) + 1
                return [*parts[:number], *[ast.Slice()] * missing, *parts[number + 1 :]]
        return parts

    def _place(self, value: Expression, span: Span, view: View, axis: int, node: ast.AST) -> Expression:
        variable = self.builder.fresh(I64)
        self.builder.emit(Index(variable, value, span.length, view.array, axis, self.source.where(node)))
        return variable

    def _span(self, span: Span, part: ast.Slice) -> Span:
        """start:stop within the span, cut to size as Python cuts it."""
        if part.step is not None:
            step = self.scalar(part.step)
            if not (isinstance(step, Constant) and step.value == 1):
                raise self.refuse(part.step, "a slice with a step", "start:stop slices; loop over the others")
        if part.lower is None and part.upper is None:
            return span
        length = span.length
        start = ZERO if part.lower is None else self._cut(self.whole_number(part.lower, "a slice's start"), length)
        stop = length if part.upper is None else self._cut(self.whole_number(part.upper, "a slice's end"), length)
        room = self.bound(rules.binary(Op.SUB, stop, start, I64))
        return Span(plus(span.start, start), self.bound(Apply(Op.MAXIMUM, (room, ZERO))))

    def _cut(self, value: Expression, length: Expression) -> Expression:
        value = self.bound(value)
        below = Apply(Op.LT, (value, ZERO))
        counted = self.bound(Select(below, Apply(Op.ADD, (value, length)), value))
        return self.bound(Apply(Op.MINIMUM, (Apply(Op.MAXIMUM, (counted, ZERO)), length)))
