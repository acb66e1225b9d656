"""Statements and kernels. A kernel is a loop nest over buffers; how it runs is said by annotations on its loops."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from kernelwright.loops.expressions import Buffer, Constant, Expression, Size, Variable, variables
from kernelwright.loops.types import ScalarType


class Reduction(Enum):
    """How an accumulator takes in a value. The order is free: a printer may keep several partial results."""

    SUM = "sum"
    MAXIMUM = "maximum"
    """NaN if any value is."""
    MINIMUM = "minimum"
    LARGEST = "largest"
    """The maximum, where a NaN among the values reaches the result by another way: it may be left out here."""


@dataclass(frozen=True)
class Let:
    """A local value that never changes."""

    variable: Variable
    value: Expression

    def __post_init__(self) -> None:
        if self.variable.type is not self.value.type:
            raise TypeError(f"{self.variable.name} is {self.variable.type.value}, not {self.value.type.value}")


@dataclass(frozen=True)
class Declare:
    """An accumulator, at the reduction's neutral value."""

    variable: Variable
    reduction: Reduction


@dataclass(frozen=True)
class Update:
    """The accumulator takes in a value."""

    variable: Variable
    reduction: Reduction
    value: Expression


@dataclass(frozen=True)
class Store:
    """Writes an element, converted to the buffer's type."""

    buffer: Buffer
    index: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True)
class Local:
    """Memory of its own for each run of the enclosing body: a stack array, threadgroup memory. Sizes are static."""

    buffer: Buffer


@dataclass(frozen=True)
class Move:
    """A tile from one buffer to another of the same type, from the places given on.

    With strides (s, t) the tile is turned: target[c * s + r] = source[r * t + c] for r < sizes[0], c < sizes[1].
    Without, it is one line of sizes[1] elements, written past the caches.
    """

    target: Buffer
    target_index: tuple[Expression, ...]
    source: Buffer
    source_index: tuple[Expression, ...]
    sizes: tuple[Expression, Expression]
    strides: tuple[Size, Size] | None = None


@dataclass(frozen=True)
class For:
    """`body` for index = start, ..., stop - 1. Iterations are independent but for accumulators."""

    index: str
    start: Expression
    stop: Expression
    body: tuple["Statement", ...]
    grain: int = 0
    """Iterations worth a thread of their own; 0: not parallel."""
    interleave: int = 0
    """Vectors in flight; 0: not vectorised."""
    unroll: int = 0
    """Copies of the body; 0: left to the compiler."""


Statement = Let | Declare | Update | Store | Local | Move | For


@dataclass(frozen=True)
class Kernel:
    """A loop nest with a name. A call passes outputs, inputs, then sizes."""

    name: str
    outputs: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    """INT64 parameters that shapes and strides refer to."""
    body: tuple[Statement, ...]
    note: str = ""
    """What it computes, in a line or two, for whoever reads the printed text."""

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in (*self.outputs, *self.inputs)] + list(self.sizes)
        if len(set(names)) != len(names):
            raise ValueError(f"kernel {self.name} has two parameters of one name: {names}")


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer before inner."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from statements(statement.body)


def reads(statement: Statement) -> set[str]:
    """The names of the variables a statement reads itself, loops by their bounds alone."""
    match statement:
        case Let(_, value):
            return variables(value)
        case Update(_, _, value):
            return variables(value)
        case Store(_, index, value):
            return set.union(variables(value), *(variables(position) for position in index))
        case Move(_, target_index, _, source_index, sizes):
            return set.union(*(variables(value) for value in (*target_index, *source_index, *sizes)))
        case For(_, start, stop):
            return variables(start) | variables(stop)
        case _:
            return set()


def check(kernel: Kernel) -> None:
    """Raises ValueError where a variable is read before it is there, or a buffer is used that is not declared."""
    buffers = {buffer.name for buffer in (*kernel.outputs, *kernel.inputs)}
    _check(kernel.body, set(kernel.sizes), buffers, kernel.name)


def _check(body: tuple[Statement, ...], known: set[str], buffers: set[str], where: str) -> None:
    known, buffers = set(known), set(buffers)
    for statement in body:
        if missing := reads(statement) - known:
            raise ValueError(f"kernel {where}: {sorted(missing)} read before there is a value: {statement}")
        match statement:
            case Let(variable) | Declare(variable):
                if variable.name in known:
                    raise ValueError(f"kernel {where}: two values are called {variable.name}")
                known.add(variable.name)
            case Update(variable):
                if variable.name not in known:
                    raise ValueError(f"kernel {where}: {variable.name} is no accumulator")
            case Local(buffer):
                buffers.add(buffer.name)
            case Store(buffer):
                if buffer.name not in buffers:
                    raise ValueError(f"kernel {where}: no buffer is called {buffer.name}")
            case Move(target, _, source):
                for buffer in (target, source):
                    if buffer.name not in buffers:
                        raise ValueError(f"kernel {where}: no buffer is called {buffer.name}")
            case For():
                _check(statement.body, known | {statement.index}, buffers, where)


def accumulator_type(type: ScalarType) -> ScalarType:
    """The type sums are kept in."""
    return ScalarType.INT64 if type in (ScalarType.BOOL, ScalarType.INT32) else type.compute


def neutral(reduction: Reduction, type: ScalarType) -> Constant:
    """What an accumulator begins with."""
    if reduction is Reduction.SUM:
        return Constant(0, type)
    sign = 1 if reduction is Reduction.MINIMUM else -1
    return Constant(sign * float("inf") if type.floating else sign * (2**63 - 1), type)
