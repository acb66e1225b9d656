"""Scalar expressions: trees of frozen nodes. Indices are expressions of type INT64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from kernelwright.loops.types import ScalarType

Size = int | str
"""A static size or stride, or the name of a kernel's INT64 parameter."""


class Op(Enum):
    """An operation on scalars of one type. The value is its name in tests and error messages."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    FLOOR_DIV = "floor_div"
    """Of non-negative integers."""
    MOD = "mod"
    """Of non-negative integers."""
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    MAXIMUM = "maximum"
    """NaN if either operand is."""
    MINIMUM = "minimum"
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"
    """To nearest, ties to even."""
    EXP = "exp"
    EXP_FALLING = "exp_falling"
    """exp of what is not positive; results below the normal numbers may be 0."""
    EXPM1 = "expm1"
    LOG = "log"
    LOG1P = "log1p"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    GELU = "gelu"
    """x times the normal distribution function of x."""
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"

    # What Python's loops need besides.
    FLOORED_DIV = "floored_div"
    """Python's //: rounded down. An integer divisor is not 0."""
    FLOORED_MOD = "floored_mod"
    """Python's %: of the divisor's sign. An integer divisor is not 0."""
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    BIT_NOT = "bit_not"
    SHIFT_LEFT = "shift_left"
    """By 0 to 63; by more the result is 0."""
    SHIFT_RIGHT = "shift_right"
    POW = "pow"
    ATAN2 = "atan2"
    HYPOT = "hypot"
    FMOD = "fmod"
    COPYSIGN = "copysign"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    EXP2 = "exp2"
    LOG2 = "log2"
    LOG10 = "log10"
    CBRT = "cbrt"
    ERFC = "erfc"
    GAMMA = "gamma"
    LGAMMA = "lgamma"
    ISNAN = "isnan"
    ISINF = "isinf"
    ISFINITE = "isfinite"

    @property
    def compares(self) -> bool:
        """Whether the result is BOOL whatever the operands are."""
        return self in _COMPARES


_COMPARES = {Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE, Op.ISNAN, Op.ISINF, Op.ISFINITE}
# Work of one operation, in units of a vector addition: what the schedules weigh against a load.
_COSTS = {
    Op.DIV: 4,
    Op.SQRT: 5,
    Op.RSQRT: 8,
    Op.EXP: 14,
    Op.EXP_FALLING: 12,
    Op.EXPM1: 16,
    Op.LOG: 20,
    Op.LOG1P: 26,
    Op.TANH: 26,
    Op.SIGMOID: 20,
    Op.ERF: 26,
    Op.GELU: 20,
}


@dataclass(frozen=True)
class Buffer:
    """Memory with a shape. Element (i, j) lies at offset + i * strides[0] + j * strides[1], in elements."""

    name: str
    type: ScalarType
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ValueError(f"buffer {self.name}: {len(self.shape)} sizes and {len(self.strides)} strides")


@dataclass(frozen=True)
class Constant:
    value: float | int | bool
    type: ScalarType


@dataclass(frozen=True)
class Variable:
    """A loop's index, a size parameter, a local value or an accumulator."""

    name: str
    type: ScalarType


@dataclass(frozen=True)
class Load:
    """An element of a buffer, in its compute type."""

    buffer: Buffer
    index: tuple["Expression", ...]

    @property
    def type(self) -> ScalarType:
        return self.buffer.type.compute


@dataclass(frozen=True)
class Apply:
    """An operation on operands of one type."""

    op: Op
    operands: tuple["Expression", ...]

    def __post_init__(self) -> None:
        types = {operand.type for operand in self.operands}
        if len(types) != 1:
            raise TypeError(f"{self.op.value} of {', '.join(operand.type.value for operand in self.operands)}")

    @property
    def type(self) -> ScalarType:
        return ScalarType.BOOL if self.op.compares else self.operands[0].type


@dataclass(frozen=True)
class Select:
    """`then` where the condition holds, else `otherwise`. Both are computed."""

    condition: "Expression"
    then: "Expression"
    otherwise: "Expression"

    def __post_init__(self) -> None:
        if self.condition.type is not ScalarType.BOOL or self.then.type is not self.otherwise.type:
            raise TypeError(
                f"select of {self.condition.type.value} ? {self.then.type.value} : {self.otherwise.type.value}"
            )

    @property
    def type(self) -> ScalarType:
        return self.then.type


@dataclass(frozen=True)
class Cast:
    """A conversion. To a 16-bit type: the value is rounded to it and stays in float32."""

    to: ScalarType
    operand: "Expression"

    @property
    def type(self) -> ScalarType:
        return self.to.compute


Expression = Constant | Variable | Load | Apply | Select | Cast


def index_of(name: str) -> Variable:
    """A loop's index or a size parameter."""
    return Variable(name, ScalarType.INT64)


def size_of(size: Size) -> Expression:
    """A size as an expression."""
    return index_of(size) if isinstance(size, str) else Constant(size, ScalarType.INT64)


def plus(a: Expression, b: Expression) -> Expression:
    """a + b of indices, folded where both are constant or one is zero."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(a.value + b.value, ScalarType.INT64)
    if isinstance(a, Constant) and a.value == 0:
        return b
    if isinstance(b, Constant) and b.value == 0:
        return a
    return Apply(Op.ADD, (a, b))


def times(a: Expression, b: Expression) -> Expression:
    """a * b of indices, folded where both are constant or one is zero or one."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return Constant(a.value * b.value, ScalarType.INT64)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Constant) and one.value == 0:
            return Constant(0, ScalarType.INT64)
        if isinstance(one, Constant) and one.value == 1:
            return other
    return Apply(Op.MUL, (a, b))


def address(buffer: Buffer, index: tuple[Expression, ...]) -> Expression:
    """The place of an element in its buffer, in elements."""
    total: Expression = Constant(0, ScalarType.INT64)
    for position, stride in zip(index, buffer.strides, strict=True):
        total = plus(total, times(position, size_of(stride)))
    return plus(total, Constant(buffer.offset, ScalarType.INT64))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside."""
    match expression:
        case Apply(_, operands):
            return operands
        case Select(condition, then, otherwise):
            return (condition, then, otherwise)
        case Cast(_, operand):
            return (operand,)
        case Load(_, index):
            return index
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all inside it."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def rewritten(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """The expression with every node for which `change` gives one replaced, outermost first."""
    changed = change(expression)
    if changed is not None:
        return changed
    match expression:
        case Apply(op, operands):
            return Apply(op, tuple(rewritten(operand, change) for operand in operands))
        case Select(condition, then, otherwise):
            return Select(rewritten(condition, change), rewritten(then, change), rewritten(otherwise, change))
        case Cast(to, operand):
            return Cast(to, rewritten(operand, change))
        case Load(buffer, index):
            return Load(buffer, tuple(rewritten(position, change) for position in index))
        case _:
            return expression


def variables(expression: Expression) -> set[str]:
    """The names of the variables in the expression."""
    return {node.name for node in walk(expression) if isinstance(node, Variable)}


def cost(expression: Expression) -> int:
    """Work of one evaluation in units of a vector addition; a load counts as one, its index as nothing."""
    match expression:
        case Constant() | Variable():
            return 0
        case Load():
            return 1
        case Apply(op, operands):
            return _COSTS.get(op, 1) + sum(cost(operand) for operand in operands)
        case _:
            return 1 + sum(cost(child) for child in children(expression))
