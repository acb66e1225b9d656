"""A scatter loop as operations on whole arrays, for libraries that have no loops: NumPy, JAX, torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.loops import Apply, ArrayType, Cast, Constant, Expression, Let, Load, Op, Program, Store, Variable
from kernelwright.loops.program import Accumulate, Index, Range, Require

_OPERATORS: dict[Op, Callable[..., Any]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.DIV: lambda a, b: a / b,
    Op.NEG: lambda a: -a,
    Op.FLOORED_DIV: lambda a, b: a // b,
    Op.FLOORED_MOD: lambda a, b: a % b,
}


@dataclass(frozen=True)
class WholeArrays:
    """A function that fills one array with a number and adds to it in one loop, along one axis."""

    program: Program
    loop: Range
    fill: float
    target: int
    """Which argument is added to."""

    def rows(self, arguments: Sequence[Any], arange: Callable[[int], Any]) -> tuple[Any, Any]:
        """Where each row adds, and what. `arange` makes the library's own array of row numbers."""
        return _Rows(self, arguments, arange).result()


def whole_arrays(program: Program) -> WholeArrays | None:
    """The function in that form; None where it has another."""
    arrays = [index for index, item in enumerate(program.arguments) if isinstance(item.type, ArrayType)]
    match program.body:
        case (Range(_, _, _, 1, (Store(filled, _, Constant(fill)),)), Range(_, Constant(0), Variable(), 1) as loop):
            pass
        case _:
            return None
    if not all(isinstance(command, Let | Index | Require | Accumulate) for command in loop.body):
        return None
    updates = [command for command in loop.body if isinstance(command, Accumulate)]
    if len(updates) != 1 or updates[0].buffer != filled or updates[0].op is not Op.ADD or len(updates[0].index) != 1:
        return None
    target = arrays[program.buffers.index(filled)]
    return WholeArrays(program, loop, float(fill), target)


class _Rows:
    def __init__(self, form: WholeArrays, arguments: Sequence[Any], arange: Callable[[int], Any]) -> None:
        self.loop = form.loop
        self.known: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        buffers, scalars = iter(form.program.buffers), iter(form.program.scalars)
        for item, value in zip(form.program.arguments, arguments, strict=True):
            if isinstance(item.type, ArrayType):
                buffer = next(buffers)
                self.arrays[buffer.name] = value
                self.known |= {str(size): number for size, number in zip(buffer.shape, value.shape, strict=True)}
            else:
                self.known[next(scalars).name] = value
        self.known[self.loop.index.name] = arange(int(self.value(self.loop.stop)))

    def result(self) -> tuple[Any, Any]:
        for command in self.loop.body:
            match command:
                case Let(variable, expression) | Index(variable, expression):
                    self.known[variable.name] = self.value(expression)
                case Accumulate():
                    return self.value(command.index[0]), self.value(command.value)
        raise AssertionError("the loop was seen to hold an Accumulate")

    def value(self, expression: Expression) -> Any:
        match expression:
            case Constant(value):
                return value
            case Variable(name):
                return self.known[name]
            case Cast(_, operand):
                return self.value(operand)  # the libraries promote by themselves
            case Load(buffer, index):
                places = tuple(self.value(axis) for axis in index)
                array = self.arrays[buffer.name]
                whole = len(places) > 1 and places[0] is self.known[self.loop.index.name]
                if whole:
                    return array[(slice(None), *places[1:])]
                return array[places] if len(places) != 1 else array[places[0]]
            case Apply(op, operands) if op in _OPERATORS:
                return _OPERATORS[op](*(self.value(operand) for operand in operands))
        raise NotImplementedError(f"{type(expression).__name__} on whole arrays")
