"""Programs, run one command after another: slow, and what the printers are compared with."""

import math
import struct
from collections.abc import Callable
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.loops.device_text import Launch
from kernelwright.loops.expressions import Apply, Cast, Constant, Expression, Load, Op, Select, Variable
from kernelwright.loops.nest import Let, Local, Store
from kernelwright.loops.program import (
    Accumulate,
    ArrayType,
    Assign,
    Break,
    Command,
    Continue,
    Failure,
    If,
    Index,
    Loop,
    Program,
    Range,
    Require,
    Return,
)
from kernelwright.loops.python.promotion import cast, wrapped
from kernelwright.loops.types import ScalarType

Number = bool | int | float


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


def interpret(program: Program, *arguments: Any) -> tuple[Number, ...]:
    """Runs the program on NumPy arrays and numbers; returns the scalars it returns.

    Raises IndexError, ZeroDivisionError or ValueError where the program fails, with line and column.
    """
    if len(arguments) != len(program.arguments):
        raise UsageError(f"{program.name} takes {len(program.arguments)} arguments, not {len(arguments)}")
    run = _started(program, arguments)
    try:
        run.body(program.body)
    except _Return:
        pass
    return run.results


def _started(program: Program, arguments: tuple[Any, ...]) -> "_Run":
    run = _Run(program)
    buffers, scalars = iter(program.buffers), iter(program.scalars)
    for argument, value in zip(program.arguments, arguments, strict=True):
        if not isinstance(argument.type, ArrayType):
            variable = next(scalars)
            run.values[variable.name] = converted(value, variable.type)
            continue
        buffer = next(buffers)
        run.arrays[buffer.name] = value
        for axis, (size, stride) in enumerate(zip(buffer.shape, buffer.strides, strict=True)):
            run.values[str(size)] = value.shape[axis]
            run.values[str(stride)] = value.strides[axis] // value.itemsize
    return run


def turns(program: Program, launch: Launch, *arguments: Any) -> int:
    """How many threads a kernel of a device's text needs for these arguments; one where it has no loops."""
    run = _started(program, arguments)
    total = 1
    for command in program.body if launch.loops else ():
        if command is launch.loops[0]:
            break
        if not isinstance(command, Range):
            run.command(command)
    for loop in launch.loops:
        total *= len(range(int(run.value(loop.start)), int(run.value(loop.stop)), loop.step))
    return total


class _Run:
    def __init__(self, program: Program) -> None:
        import numpy as np

        self.program = program
        self.values: dict[str, Number] = {one.name: converted(0, one.type) for one in program.variables}
        self.arrays: dict[str, Any] = {
            buffer.name: np.zeros([int(size) for size in buffer.shape], buffer.type.value) for buffer in program.locals
        }
        self.results: tuple[Number, ...] = ()

    def body(self, body: tuple[Command, ...]) -> None:
        for command in body:
            self.command(command)

    def command(self, command: Command) -> None:
        match command:
            case Let(variable, value) | Assign(variable, value):
                self.values[variable.name] = self.value(value)
            case Store(buffer, index, value):
                place = tuple(self.value(one) for one in index)
                self.arrays[buffer.name][place] = self.value(cast(value, buffer.type))
            case Accumulate(buffer, index, op, value):
                old = cast(Load(buffer, index), value.type)
                self.command(Store(buffer, index, Apply(op, (old, value))))
            case Index():
                self._index(command)
            case Require():
                if not self.value(command.condition):
                    numbers = int(self.value(command.index)), int(self.value(command.size))
                    raise _error(self.program, command, *numbers)
            case Range():
                start, stop = int(self.value(command.start)), int(self.value(command.stop))
                for index in range(start, stop, command.step):
                    self.values[command.index.name] = index
                    if self._once(command.body):
                        break
            case Loop(inner):
                while not self._once(inner):
                    pass
            case If(condition, then, otherwise):
                self.body(then if self.value(condition) else otherwise)
            case Break():
                raise _Break
            case Continue():
                raise _Continue
            case Return(values):
                self.results = tuple(self.value(value) for value in values)
                raise _Return
            case Local():
                pass

    def _once(self, body: tuple[Command, ...]) -> bool:
        """Runs a loop's body; whether the loop is left."""
        try:
            self.body(body)
        except _Break:
            return True
        except _Continue:
            pass
        return False

    def _index(self, command: Index) -> None:
        given, size = int(self.value(command.value)), int(self.value(command.size))
        place = given + size if given < 0 else given
        if not 0 <= place < size:
            raise _error(self.program, command, given, size)
        self.values[command.variable.name] = place

    def value(self, expression: Expression) -> Number:
        match expression:
            case Constant(value, type):
                return converted(value, type)
            case Variable(name):
                return self.values[name]
            case Load(buffer, index):
                return self.arrays[buffer.name][tuple(self.value(place) for place in index)].item()
            case Cast(to, operand):
                return converted(self.value(operand), to)
            case Select(condition, then, otherwise):
                return self.value(then if self.value(condition) else otherwise)
            case Apply(op, operands):
                values = [self.value(operand) for operand in operands]
                return converted(_apply(op, values, operands[0].type), expression.type)


def converted(value: Any, type: ScalarType) -> Number:
    """The number as one of the type: integers wrap, floats are rounded."""
    if type is ScalarType.BOOL:
        return bool(value)
    if type.integer:
        if isinstance(value, float) and not -(2.0**63) <= value < 2.0**63:
            value = -(2**63)
        return wrapped(int(value), type)
    value = float(value)
    if type is ScalarType.FLOAT32:
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    return value


def _error(program: Program, command: Index | Require, index: int, size: int) -> Exception:
    failure = Failure.INDEX if isinstance(command, Index) else command.failure
    place = f"{program.file}:{command.where.line}:{command.where.column}: "
    name = program.array_name(command.array) if command.array >= 0 else ""
    match failure:
        case Failure.INDEX:
            axis = command.axis if isinstance(command, Index) else 0
            return IndexError(f"{place}index {index} is out of bounds for axis {axis} of {name} with size {size}")
        case Failure.ZERO_DIVISION:
            return ZeroDivisionError(f"{place}an integer is divided by 0")
        case Failure.STEP:
            return ValueError(f"{place}the step of a range is 0")
        case Failure.SIZE:
            return ValueError(f"{place}{index} values and {size} places")


def _apply(op: Op, values: list[Any], type: ScalarType) -> Any:
    if type.floating:
        found = _FLOATING.get(op)
        try:
            if found is not None:
                return found(*values)
            return _LIBM[op](*values)
        except (ValueError, ZeroDivisionError, OverflowError):
            import numpy as np

            with np.errstate(all="ignore"):
                return float(getattr(np, _NUMPY.get(op, op.value))(*map(np.float64, values)))
    return _WHOLE[op](*values)


def _shift(a: int, n: int) -> int:
    return a << n if 0 <= n < 64 else 0


def _power(a: int, n: int) -> int:
    if n >= 0:
        return pow(a, n, 1 << 64)
    return 1 if a == 1 else ((-1 if n & 1 else 1) if a == -1 else 0)


def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or a > b else b


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or a < b else b


_BOTH: dict[Op, Callable[..., Any]] = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.NEG: lambda a: -a,
    Op.ABS: abs,
    Op.SIGN: lambda a: a if a != a else (a > 0) - (a < 0),
    Op.FLOORED_DIV: lambda a, b: a // b,
    Op.FLOORED_MOD: lambda a, b: a % b,
    Op.MAXIMUM: _maximum,
    Op.MINIMUM: _minimum,
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
    Op.EQ: lambda a, b: a == b,
    Op.NE: lambda a, b: a != b,
}
_WHOLE = _BOTH | {
    Op.AND: lambda a, b: a and b,
    Op.OR: lambda a, b: a or b,
    Op.NOT: lambda a: not a,
    Op.BIT_AND: lambda a, b: a & b,
    Op.BIT_OR: lambda a, b: a | b,
    Op.BIT_XOR: lambda a, b: a ^ b,
    Op.BIT_NOT: lambda a: ~a,
    Op.SHIFT_LEFT: _shift,
    Op.SHIFT_RIGHT: lambda a, n: a >> n if 0 <= n < 64 else (-1 if a < 0 else 0),
    Op.POW: _power,
}
_FLOATING = _BOTH | {
    Op.DIV: lambda a, b: a / b,
    Op.FLOOR: lambda a: float(math.floor(a)),
    Op.CEIL: lambda a: float(math.ceil(a)),
    Op.TRUNC: lambda a: float(math.trunc(a)),
    Op.ROUND: lambda a: float(round(a)),
    Op.ISNAN: math.isnan,
    Op.ISINF: math.isinf,
    Op.ISFINITE: math.isfinite,
    Op.RSQRT: lambda a: 1 / math.sqrt(a),
}
_LIBM: dict[Op, Callable[..., float]] = {
    op: getattr(math, op.value)
    for op in Op
    if hasattr(math, op.value) and op not in _FLOATING and op not in (Op.MOD, Op.FLOOR_DIV)
}
_NUMPY = {
    Op.DIV: "divide",
    Op.FLOORED_DIV: "floor_divide",
    Op.FLOORED_MOD: "remainder",
    Op.POW: "power",
    Op.ROUND: "rint",
    Op.ASIN: "arcsin",
    Op.ACOS: "arccos",
    Op.ATANH: "arctanh",
    Op.ACOSH: "arccosh",
}
