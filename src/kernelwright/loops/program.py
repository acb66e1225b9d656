"""Programs: a Python function of arrays and scalars as statements over the IR's expressions.

Expressions are pure and total. What may fail stands before them as a statement of its own (`Index`, `Require`), and
every element is read by a `Let` at the place where Python would read it; so a printer never has to think about the
order of evaluation, and an analysis sees each access once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kernelwright.loops.expressions import Buffer, Expression, Load, Op, Size, Variable, walk
from kernelwright.loops.nest import Let, Local, Store
from kernelwright.loops.types import ScalarType


@dataclass(frozen=True)
class ArrayType:
    """An array argument's type. Of a contiguous one the last axis lies element beside element, rows one after another.

    Of others the strides are whatever a call brings, also negative.
    """

    dtype: ScalarType
    ndim: int
    contiguous: bool = True


@dataclass(frozen=True)
class Where:
    """A place in the user's file, counted from 1."""

    line: int
    column: int


class Failure(Enum):
    """What ends a program early. The value is the `kind` of the C++ text's KwError."""

    INDEX = 1
    """An index outside its axis."""
    ZERO_DIVISION = 2
    """An integer divided by 0."""
    SIZE = 3
    """A row unpacked into another number of names, or an array copied into one of another size."""
    STEP = 4
    """A range whose step is 0."""


@dataclass(frozen=True)
class Assign:
    """A variable, which belongs to the whole program, gets a new value."""

    variable: Variable
    value: Expression

    def __post_init__(self) -> None:
        if self.variable.type is not self.value.type:
            raise TypeError(f"{self.variable.name} is {self.variable.type.value}, not {self.value.type.value}")


@dataclass(frozen=True)
class Index:
    """variable = value, counted from the end where it is negative. Fails where it is not within 0 to size - 1 then."""

    variable: Variable
    value: Expression
    size: Expression
    array: int
    """Which array, see `Program.array_name`."""
    axis: int
    where: Where


@dataclass(frozen=True)
class Require:
    """Fails unless the condition holds; index and size go into the message."""

    condition: Expression
    failure: Failure
    where: Where
    index: Expression
    size: Expression
    array: int = -1


@dataclass(frozen=True)
class Accumulate:
    """element = element op value, computed in the value's type and converted back."""

    buffer: Buffer
    index: tuple[Expression, ...]
    op: Op
    value: Expression
    where: Where


@dataclass(frozen=True)
class Range:
    """`body` for index = start, start + step, ... before stop. Bounds are computed once and do not change inside."""

    index: Variable
    start: Expression
    stop: Expression
    step: int
    body: tuple["Command", ...]
    where: Where
    asserted: bool = False
    """The user says that iterations are independent (prange)."""
    cooperative: bool = False
    """A device may give the turns to a group of threads, which then add up what they have: sums in another order. It
    stands in a free loop's body, which adds up in it and does nothing else there."""


@dataclass(frozen=True)
class Loop:
    """`body` until a Break."""

    body: tuple["Command", ...]
    where: Where


@dataclass(frozen=True)
class If:
    condition: Expression
    then: tuple["Command", ...]
    otherwise: tuple["Command", ...] = ()


@dataclass(frozen=True)
class Break:
    pass


@dataclass(frozen=True)
class Continue:
    pass


@dataclass(frozen=True)
class Return:
    values: tuple[Expression, ...]


Command = Let | Store | Local | Assign | Index | Require | Accumulate | Range | Loop | If | Break | Continue | Return


@dataclass(frozen=True)
class Argument:
    """A parameter, with what the program does to it. `name` is Python's."""

    name: str
    type: ArrayType | ScalarType
    written: bool
    read: bool


@dataclass(frozen=True)
class Program:
    """See the module. `buffers` are the array arguments in order, `scalars` the scalar ones."""

    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    buffers: tuple[Buffer, ...]
    scalars: tuple[Variable, ...]
    variables: tuple[Variable, ...]
    """What Assign writes to, arguments aside."""
    locals: tuple[Buffer, ...]
    body: tuple[Command, ...]
    result: tuple[ScalarType, ...]
    """The types of the scalars returned."""
    file: str
    line: int

    def array_name(self, number: int) -> str:
        """The name of array `number`: an argument's place among all arguments, or beyond them a local array's."""
        if number < len(self.arguments):
            return self.arguments[number].name
        return self.locals[number - len(self.arguments)].name.removesuffix("_")


def commands(body: tuple[Command, ...]) -> Iterator[Command]:
    """All commands, outer before inner."""
    for command in body:
        yield command
        for inner in bodies(command):
            yield from commands(inner)


def bodies(command: Command) -> tuple[tuple[Command, ...], ...]:
    """The lists of commands directly inside."""
    match command:
        case Range() | Loop():
            return (command.body,)
        case If():
            return (command.then, command.otherwise)
        case _:
            return ()


def expressions(command: Command) -> tuple[Expression, ...]:
    """The expressions a command computes itself."""
    match command:
        case Let(_, value) | Assign(_, value):
            return (value,)
        case Store(_, index, value) | Accumulate(_, index, _, value):
            return (*index, value)
        case Index():
            return (command.value, command.size)
        case Require():
            return (command.condition, command.index, command.size)
        case Range():
            return (command.start, command.stop)
        case If():
            return (command.condition,)
        case Return(values):
            return values
        case _:
            return ()


def loads(command: Command) -> Iterator[Load]:
    """The elements a command reads itself, an Accumulate's own aside."""
    for expression in expressions(command):
        for node in walk(expression):
            if isinstance(node, Load):
                yield node


def sizes(buffer: Buffer) -> Iterator[tuple[str, int, Size]]:
    """("shape" or "strides", axis, name) of an argument's sizes that a call brings."""
    for axis, size in enumerate(buffer.shape):
        yield "shape", axis, size
    for axis, size in enumerate(buffer.strides):
        yield "strides", axis, size
