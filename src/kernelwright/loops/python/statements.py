"""Python statements as the program's commands."""

import ast
import math
from collections.abc import Callable
from typing import Any

from kernelwright.loops.expressions import Apply, Constant, Expression, Load, Op, Variable
from kernelwright.loops.nest import Let, Local, Store
from kernelwright.loops.program import (
    Accumulate,
    Assign,
    Break,
    Command,
    Continue,
    Failure,
    If,
    Range,
    Require,
    commands,
)
from kernelwright.loops.python import arithmetic as rules
from kernelwright.loops.python.builder import Builder
from kernelwright.loops.python.expressions import Expressions
from kernelwright.loops.python.promotion import I64, cast, negation, truth
from kernelwright.loops.python.source import Source, qualified
from kernelwright.loops.python.values import ZERO, Names, Value, View, identifier, local_buffer, whole
from kernelwright.loops.types import ScalarType

LARGEST_LOCAL_BYTES = 1 << 16
"""Local arrays live on the stack of a thread."""

_ACCUMULATED = {"Add": Op.ADD, "Sub": Op.SUB, "Mult": Op.MUL}


class Statements(Expressions):
    """Lowers the statements of one function."""

    def __init__(self, source: Source, builder: Builder, make: Callable[[Any], Source], suffix: str = "_") -> None:
        super().__init__(source, builder)
        self.make = make
        """Finds the source of a called function."""
        self.suffix = suffix
        self.seen = Names(source.tree)
        self.result_types: list[ScalarType] | None = None
        self.done: Variable | None = None
        """Of an inlined function that may return early: whether it has."""
        self.results: list[Variable] = []
        self.returned: Value | None = None
        self.loops = 0

    def variable(self, name: str, type: ScalarType) -> Variable:
        """The local name as a variable of the program that has just taken a value of `type`."""
        own = self.variables.setdefault(name, self.mangled(name))
        return Variable(own, self.builder.widen(own, type))

    def late(self, name: str) -> bool:
        if name in self.seen.stores and name not in self.seen.lets | self.seen.indices:
            self.variables[name] = self.mangled(name)
            return True
        return False

    def mangled(self, name: str) -> str:
        text = identifier(name)
        return text if self.suffix == "_" else text + self.suffix

    # ---- blocks -------------------------------------------------------------------------------------------------

    def nested(self, body: list[ast.stmt]) -> tuple[Command, ...]:
        """A block of its own: names of arrays and of values bound inside end with it."""
        before, names = self.builder.block, dict(self.names)
        self.builder.block = inner = []
        try:
            self.body(body)
        finally:
            self.builder.block, self.names = before, names
        return tuple(inner)

    def body(self, body: list[ast.stmt]) -> None:
        for number, statement in enumerate(body):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring
            self.statement(statement)
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                return
            rest = body[number + 1 :]
            if self.done is not None and returns(statement):
                if self.loops:
                    self.builder.emit(If(self.done, (Break(),)))
                elif rest:
                    self.builder.emit(If(negation(self.done), self.nested(rest)))
                    return

    def loop(self, node: ast.For | ast.While) -> None:
        raise NotImplementedError

    def give_back(self, node: ast.Return, value: ast.expr | None) -> None:
        raise NotImplementedError

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets, value):
                if len(targets) > 1:
                    bound = self._kept(self.value(value))
                    for target in targets:
                        self.assign(target, bound, node)
                elif not self._allocation(targets[0], value):
                    self.assign(targets[0], self.value(value), node)
            case ast.AnnAssign(target, _, value):
                if value is not None and not self._allocation(target, value):
                    self.assign(target, self.value(value), node)
            case ast.AugAssign():
                self._augmented(node)
            case ast.For() | ast.While():
                self.loop(node)
            case ast.If(test, body, orelse):
                condition = truth(self.scalar(test))
                if isinstance(condition, Constant):
                    self.body(body if condition.value else orelse)
                else:
                    self.builder.emit(If(condition, self.nested(body), self.nested(orelse)))
            case ast.Return(value):
                self.give_back(node, value)
            case ast.Break():
                self.builder.emit(Break())
            case ast.Continue():
                self.builder.emit(Continue())
            case ast.Pass():
                pass
            case ast.Expr(value):
                self.value(value)
            case _:
                raise self.refuse(
                    node,
                    f"the statement {type(node).__name__.lower()!r} is not supported",
                    "assignments, for over range, while, if, break, continue, return",
                )

    # ---- assignments --------------------------------------------------------------------------------------------

    def _kept(self, value: Value) -> Value:
        """The value as it is now, whatever is assigned afterwards."""
        if isinstance(value, tuple):
            return tuple(self._kept(part) for part in value)
        return value if isinstance(value, View) else self.bound(value)

    def assign(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        match target:
            case ast.Name(name):
                self._named(name, value, node)
            case ast.Tuple(elts) | ast.List(elts):
                for part, one in zip(elts, self._unpacked(value, len(elts), node), strict=True):
                    self.assign(part, one, node)
            case ast.Subscript():
                self._stored(target, value, node)
            case _:
                raise self.refuse(target, f"an assignment to {ast.unparse(target)}", "names and array elements")

    def _named(self, name: str, value: Value, node: ast.AST) -> None:
        if isinstance(value, View) and not value.open_axes:
            value = self.element(value, node)
        if isinstance(value, (View, tuple)):
            if self.seen.stores.get(name, 0) != 1 or name not in self.seen.lets:
                what = "an array" if isinstance(value, View) else "several values"
                raise self.refuse(
                    node, f"{name} is given {what} and another value elsewhere", "one name for one array or tuple"
                )
            self.names[name] = self._kept(value)
            return
        if name in self.names and not isinstance(self.names[name], (View, tuple)) and name in self.seen.lets:
            del self.names[name]
        if name in self.names:
            raise self.refuse(node, f"{name} is an array and is given a number", "another name for the number")
        if name in self.seen.lets:
            if not self.builder.constant(value):
                bound = Variable(self.mangled(name), value.type)
                self.builder.lets.add(bound.name)
                self.builder.emit(Let(bound, value))
                value = bound
            self.names[name] = value
            return
        variable = self.variable(name, value.type)
        self.builder.emit(Assign(variable, cast(value, variable.type)))

    def _unpacked(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        if isinstance(value, tuple):
            if len(value) != count:
                raise self.refuse(node, f"{len(value)} values for {count} names", "as many names as values")
            return [self._kept(part) for part in value]
        if not isinstance(value, View) or not value.open_axes:
            raise self.refuse(node, "a number for several names", "a tuple or a row of an array")
        size = Constant(count, I64)
        length = value.shape[0]
        holds = Apply(Op.EQ, (length, size))
        if length != size:
            where = self.source.where(node)
            self.builder.emit(Require(holds, Failure.SIZE, where, size, length, value.array))
        axis = value.open_axes[0]
        parts: list[Value] = []
        for number in range(count):
            part = value.fixed(axis, Constant(number, I64))
            parts.append(part if part.open_axes else self.element(part, node))
        return parts

    def _target(self, target: ast.Subscript) -> View:
        owner = self.value(target.value)
        if not isinstance(owner, View):
            raise self.refuse(target, "an assignment into a number or tuple", "array elements")
        return self.part(owner, target.slice, target)

    def _stored(self, target: ast.Subscript, value: Value, node: ast.AST) -> None:
        value = self._kept(value)
        view = self._target(target)
        if isinstance(value, tuple):
            raise self.refuse(node, "several values for a part of an array", "one assignment for each element")
        self.builder.written.add(view.array)
        if isinstance(value, View) and not value.open_axes:
            value = self.element(value, node)
        self.copied(view, value, node)

    def copied(self, view: View, value: Expression | View, node: ast.AST) -> None:
        """view[...] = value: one element, a fill, or a copy."""
        if not view.open_axes:
            if isinstance(value, View):
                raise self.refuse(node, "an array for one element", "one number")
            buffer = view.buffer
            self.builder.emit(Store(buffer, view.place, cast(value, buffer.type.compute)))
            return
        if not isinstance(value, View):
            value = self.bound(cast(value, view.buffer.type.compute))
        elif len(value.open_axes) != len(view.open_axes):
            counts = f"{len(value.open_axes)} axes into {len(view.open_axes)}"
            raise self.refuse(node, f"a copy of {counts}", "copies between parts of the same number of axes, or a loop")
        elif value.buffer == view.buffer and any(
            view.axes[axis] != whole(view.buffer, 0).axes[axis] for axis in (*view.open_axes, *value.open_axes)
        ):
            raise self.refuse(node, "a copy between parts of one array that may overlap", "a loop over the elements")
        self._copy_axis(view, value, node)

    def _copy_axis(self, view: View, value: Expression | View, node: ast.AST) -> None:
        length, where = view.shape[0], self.source.where(node)
        if isinstance(value, View) and value.shape[0] != length:
            same = Apply(Op.EQ, (value.shape[0], length))
            self.builder.emit(Require(same, Failure.SIZE, where, value.shape[0], length, view.array))
        self.builder.indices += 1
        index = Variable(f"e{self.builder.indices}", I64)
        before = self.builder.block
        self.builder.block = inner = []
        part = view.fixed(view.open_axes[0], index)
        of = value.fixed(value.open_axes[0], index) if isinstance(value, View) else value
        if part.open_axes:
            self._copy_axis(part, of, node)
        else:
            self.copied(part, self.element(of, node), node)
        self.builder.block = before
        self.builder.emit(Range(index, ZERO, length, 1, tuple(inner), where))

    def _augmented(self, node: ast.AugAssign) -> None:
        op, where = type(node.op).__name__, self.source.where(node)
        if isinstance(node.target, ast.Name):
            old = self.scalar(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            self.assign(node.target, self.operation(op, old, self.scalar(node.value), node), node)
            return
        if not isinstance(node.target, ast.Subscript):
            raise self.refuse(node, f"an assignment to {ast.unparse(node.target)}", "names and array elements")
        view = self._target(node.target)
        if view.open_axes:
            raise self.refuse(node, "arithmetic on a whole array", "a loop over the elements")
        before = len(self.builder.block)
        value = self.scalar(node.value)
        self.builder.written.add(view.array)
        self.builder.read.add(view.array)
        if any(_writes(command, view) for command in commands(tuple(self.builder.block[before:]))):
            old = self.builder.fresh(view.buffer.type.compute)  # the value is a call that writes here: read it first
            self.builder.block.insert(before, Let(old, Load(view.buffer, view.place)))
            self.copied(view, self.operation(op, old, value, node), node)
            return
        own = Variable("old", view.buffer.type.compute)
        computed = self.operation(op, own, value, node) if op in _ACCUMULATED else None
        if isinstance(computed, Apply) and computed.op is _ACCUMULATED[op]:
            self.builder.emit(Accumulate(view.buffer, view.place, computed.op, computed.operands[1], where))
        else:
            old = self.element(view, node)
            result = self.operation(op, old, value, node)
            self.builder.emit(Store(view.buffer, view.place, cast(result, view.buffer.type.compute)))

    def _allocation(self, target: ast.expr, node: ast.expr) -> bool:
        """name = np.zeros(...): a local array."""
        if not isinstance(node, ast.Call):
            return False
        kind = qualified(self.source.resolve(node.func))
        if kind not in ("numpy.zeros", "numpy.empty", "numpy.ones", "numpy.full"):
            return False
        if not isinstance(target, ast.Name) or target.id not in self.seen.lets:
            raise self.refuse(node, "a new array for a name that has another value elsewhere", "a name of its own")
        arguments = list(node.args)
        shape = self.value(arguments[0])
        parts = shape if isinstance(shape, tuple) else (shape,)
        sizes = [int(part.value) for part in parts if isinstance(part, Constant)]
        if not sizes or len(sizes) != len(parts) or any(size <= 0 for size in sizes):
            raise self.refuse(
                node, "a local array whose size is not a constant", "constant sizes; pass larger arrays as arguments"
            )
        fill: Expression | None = {"numpy.zeros": ZERO, "numpy.ones": Constant(1, I64)}.get(kind)
        if kind == "numpy.full":
            fill = self.scalar(arguments.pop(1))
        given = [*arguments[1:2], *(word.value for word in node.keywords if word.arg == "dtype")]
        type = self._dtype(given[0]) if given else (fill.type if fill and kind == "numpy.full" else self.builder.real)
        buffer = local_buffer(self.mangled(target.id), type, tuple(sizes))
        if math.prod(sizes) * type.bytes > LARGEST_LOCAL_BYTES:
            raise self.refuse(node, "a local array of more than 64 KiB", "smaller ones; pass it as an argument")
        number = self.builder.arguments + len(self.builder.locals)
        self.builder.locals.append(buffer)
        self.builder.emit(Local(buffer))
        view = whole(buffer, number)
        self.names[target.id] = view
        if fill is not None:
            self.copied(view, fill, node)
        return True

    def _dtype(self, node: ast.expr) -> ScalarType:
        if isinstance(node, ast.Attribute) and node.attr == "dtype":
            owner = self.value(node.value)
            if isinstance(owner, View):
                return owner.buffer.type
        name = node.value if isinstance(node, ast.Constant) else qualified(self.source.resolve(node))
        found = rules.CASTS.get(f"numpy.{name}") or rules.CASTS.get(str(name))
        if name == "builtins.float":
            found = self.builder.real
        if found is None:
            raise self.refuse(node, f"the dtype {ast.unparse(node)}", "bool, int8 to uint64, float32 and float64")
        return found


def _writes(command: Command, view: View) -> bool:
    return isinstance(command, (Store, Accumulate)) and command.buffer == view.buffer


def returns(statement: ast.stmt) -> bool:
    """Whether a return is inside."""
    return any(isinstance(node, ast.Return) for node in ast.walk(statement))
