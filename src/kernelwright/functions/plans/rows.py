"""Finds the loop of a program whose only effect is to add to one array, where rows that cannot change say where.

What depends on nothing but those rows is computed here, once, for all rows together; what is left of the loop's body
reads other arrays and makes the value that is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright.loops import (
    Apply,
    ArrayType,
    Cast,
    Constant,
    Expression,
    Let,
    Load,
    Op,
    Program,
    ScalarType,
    Select,
    Variable,
)
from kernelwright.loops.expressions import rewritten, walk
from kernelwright.loops.program import Accumulate, Assign, Command, If, Index, Loop, Range, Require

_ARITHMETIC = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.NEG: np.negative,
    Op.BIT_AND: np.bitwise_and,
    Op.BIT_OR: np.bitwise_or,
    Op.BIT_XOR: np.bitwise_xor,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.GT: np.greater,
    Op.GE: np.greater_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
    Op.NOT: np.logical_not,
}
_INTEGERS = {Op.FLOORED_DIV: np.floor_divide, Op.FLOORED_MOD: np.remainder}


@dataclass(frozen=True)
class Scatter:
    """A loop `for each row: buffer[key] += value`, with all indices in bounds as long as `guards` hold."""

    place: int
    """Which command of the program's body the loop is."""
    count: int
    """How many rows."""
    key: tuple[np.ndarray, ...]
    """For each axis of the buffer the index, for each row."""
    columns: Mapping[str, np.ndarray]
    """What each variable that the value reads is, for each row."""
    types: Mapping[str, ScalarType]
    lets: tuple[Let, ...]
    """The loads of other arrays that the value reads, in order."""
    update: Accumulate
    guards: Mapping[tuple[int, int], int]
    """For each (argument, axis) the largest index that is used."""


class _Unfit(Exception):
    """The loop is none of these."""


def find_scatter(program: Program, constants: Mapping[int, np.ndarray]) -> Scatter | None:
    """The first such loop at the top of the program, where the arguments numbered in `constants` cannot change."""
    for place, command in enumerate(program.body):
        if isinstance(command, Range):
            try:
                found = _Rows(program, constants).scatter(place, command)
            except _Unfit:
                continue
            if found is not None:
                return found
    return None


class _Rows:
    """Walks through one loop. `known` are the variables that depend on rows alone, each for all rows."""

    def __init__(self, program: Program, constants: Mapping[int, np.ndarray]) -> None:
        self.program = program
        numbers = [i for i, argument in enumerate(program.arguments) if isinstance(argument.type, ArrayType)]
        self.numbers = {buffer.name: number for buffer, number in zip(program.buffers, numbers, strict=True)}
        self.arrays = {
            buffer.name: constants[number]
            for buffer, number in zip(program.buffers, numbers, strict=True)
            if number in constants
        }
        self.known: dict[str, Any] = {}
        for buffer in program.buffers:
            if buffer.name in self.arrays:
                for size, value in zip(buffer.shape, self.arrays[buffer.name].shape, strict=True):
                    self.known[str(size)] = np.int64(value)
        self.guards: dict[tuple[int, int], int] = {}

    def scatter(self, place: int, loop: Range) -> Scatter | None:
        start, stop = self.value(loop.start), self.value(loop.stop)
        if start is None or stop is None or loop.step != 1 or stop <= start:
            return None
        count = int(stop - start)
        self.known[loop.index.name] = np.arange(start, stop, dtype=np.int64)
        types: dict[str, ScalarType] = {loop.index.name: ScalarType.INT64}
        lets: list[Let] = []
        update: Accumulate | None = None
        for command in loop.body:
            match command:
                case Let(variable, expression):
                    types[variable.name] = variable.type
                    rows = self.value(expression)
                    if rows is None:
                        lets.append(command)
                    else:
                        self.known[variable.name] = rows
                case Index():
                    types[command.variable.name] = ScalarType.INT64
                    self.known[command.variable.name] = self.index(command)
                case Require(condition):
                    holds = self.value(condition)
                    if holds is None or not np.all(holds):
                        return None
                case Accumulate() if update is None and command.op is Op.ADD:
                    update = command
                case _:
                    return None
        if update is None or update.buffer.name in self.arrays or update.buffer.name not in self.numbers:
            return None
        if not self.independent(loop, lets, update):
            return None
        key = [self.value(index) for index in update.index]
        if any(axis is None for axis in key):
            return None
        used = {
            node.name
            for expression in (*(let.value for let in lets), update.value)
            for node in walk(expression)
            if isinstance(node, Variable)
        }
        columns = {name: self.full(self.known[name], count) for name in sorted(used & self.known.keys() & types.keys())}
        return Scatter(
            place,
            count,
            tuple(self.full(axis, count) for axis in key),
            columns,
            types,
            tuple(lets),
            update,
            self.guards,
        )

    @staticmethod
    def full(value: Any, count: int) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(value, (count,)))

    def independent(self, loop: Range, lets: Sequence[Let], update: Accumulate) -> bool:
        """Whether the value reads neither what is added to nor what changes while the loop runs."""
        inside = {let.variable.name for let in lets}
        changing = {command.variable.name for command in _all(self.program.body) if isinstance(command, Assign)}
        for expression in (*(let.value for let in lets), update.value):
            for node in walk(expression):
                if isinstance(node, Load) and node.buffer.name not in self.numbers:
                    return False  # a local array
                if isinstance(node, Load) and node.buffer.name == update.buffer.name:
                    return False
                if isinstance(node, Variable) and node.name in changing and node.name not in inside:
                    return False
        return True

    def index(self, command: Index) -> Any:
        """The index, in bounds: for arrays that cannot change that is seen here, for others a guard will see it."""
        value, size = self.value(command.value), self.value(command.size)
        if value is None or command.array >= len(self.program.arguments):
            raise _Unfit
        if size is not None:
            value = np.where(value < 0, value + size, value)
            if np.any((value < 0) | (value >= size)):
                raise _Unfit
            return value
        buffer = next(name for name, number in self.numbers.items() if number == command.array)
        shape = next(item.shape for item in self.program.buffers if item.name == buffer)
        if command.size != Variable(str(shape[command.axis]), ScalarType.INT64) or np.any(value < 0):
            raise _Unfit
        guard = (command.array, command.axis)
        self.guards[guard] = max(self.guards.get(guard, -1), int(np.max(value)))
        return value

    def value(self, expression: Expression) -> Any:
        """The expression for all rows, in its own type; None where it depends on more than rows."""
        dtype = np.dtype(expression.type.value) if expression.type.value != "bfloat16" else None
        match expression:
            case Constant(value):
                return np.asarray(value, dtype)
            case Variable(name):
                return self.known.get(name)
            case Load(buffer, index):
                if buffer.name not in self.arrays:
                    return None
                places = [self.value(axis) for axis in index]
                if any(place is None for place in places):
                    return None
                array = self.arrays[buffer.name].view(np.ndarray)
                return array[tuple(places)].astype(dtype, copy=False)
            case Cast(_, operand):
                value = self.value(operand)
                if value is None or (operand.type.floating and not expression.type.floating):
                    return None
                return value.astype(dtype)
            case Select(condition, then, otherwise):
                parts = [self.value(part) for part in (condition, then, otherwise)]
                return None if any(part is None for part in parts) else np.where(*parts)
            case Apply(op, operands):
                return self.applied(op, [self.value(operand) for operand in operands], operands[0].type)
        return None

    @staticmethod
    def applied(op: Op, values: Sequence[Any], type: ScalarType) -> Any:
        function = _ARITHMETIC.get(op) or (_INTEGERS.get(op) if type.integer else None)
        if function is None or any(value is None for value in values):
            return None
        if op in _INTEGERS and (np.any(values[1] == 0) or np.any(values[1] == -1)):
            return None
        with np.errstate(all="ignore"):
            return function(*values)


def _all(body: Sequence[Command]) -> list[Command]:
    found: list[Command] = []
    for command in body:
        found.append(command)
        match command:
            case Range() | Loop():
                found += _all(command.body)
            case If():
                found += _all(command.then) + _all(command.otherwise)
    return found


def substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """The expression with variables replaced."""
    return rewritten(expression, lambda node: values.get(node.name) if isinstance(node, Variable) else None)
