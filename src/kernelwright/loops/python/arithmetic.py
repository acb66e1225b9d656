"""Python's operators and the functions of math, NumPy and the built-ins, on scalars."""

import math
from collections.abc import Callable

from kernelwright.loops.expressions import Apply, Constant, Expression, Op, Select
from kernelwright.loops.python.promotion import (
    BOOL,
    I64,
    arithmetic,
    cast,
    join,
    larger,
    machine,
    negation,
    smaller,
    truth,
)
from kernelwright.loops.types import ScalarType

_SAME = (
    "exp expm1 log log1p sqrt sin cos tan sinh cosh tanh exp2 log2 log10 cbrt erf erfc gamma lgamma "
    "asin acos atan asinh acosh atanh"
)
UNARY = {name: Op[name.upper()] for name in _SAME.split()} | {
    f"arc{name}": Op[f"A{name.upper()}"] for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
}
"""math.NAME and np.NAME of one floating number."""

BINARY = {
    "atan2": Op.ATAN2,
    "arctan2": Op.ATAN2,
    "hypot": Op.HYPOT,
    "fmod": Op.FMOD,
    "copysign": Op.COPYSIGN,
}

TESTS = {"isnan": Op.ISNAN, "isinf": Op.ISINF, "isfinite": Op.ISFINITE}

ROUNDING = {"floor": Op.FLOOR, "ceil": Op.CEIL, "trunc": Op.TRUNC, "rint": Op.ROUND}

CASTS = {
    f"numpy.{type.value}": type for type in ScalarType if type not in (ScalarType.FLOAT16, ScalarType.BFLOAT16)
} | {"numpy.bool_": BOOL, "builtins.bool": BOOL, "builtins.int": I64}

COMPARISONS = {"Eq": Op.EQ, "NotEq": Op.NE, "Lt": Op.LT, "LtE": Op.LE, "Gt": Op.GT, "GtE": Op.GE}

ARITHMETIC = {"Add": Op.ADD, "Sub": Op.SUB, "Mult": Op.MUL, "FloorDiv": Op.FLOORED_DIV, "Mod": Op.FLOORED_MOD}

BITS = {"BitAnd": Op.BIT_AND, "BitOr": Op.BIT_OR, "BitXor": Op.BIT_XOR}

SHIFTS = {"LShift": Op.SHIFT_LEFT, "RShift": Op.SHIFT_RIGHT}

LARGEST_POWER = 8
"""Whole exponents up to here are multiplied out."""

Rule = Callable[[list[Expression], ScalarType], Expression]


def binary(op: Op, a: Expression, b: Expression, type: ScalarType) -> Expression:
    """a op b, computed in `type`; whole numbers that are known are added up here."""
    a, b = cast(a, type), cast(b, type)
    if isinstance(a, Constant) and isinstance(b, Constant) and type is I64 and op in _FOLDED:
        value = _FOLDED[op](int(a.value), int(b.value))
        if abs(value) < 2**62:
            return Constant(value, I64)
    return Apply(op, (a, b))


_FOLDED = {Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b, Op.MUL: lambda a, b: a * b}


def compare(op: Op, a: Expression, b: Expression, real: ScalarType) -> Expression:
    """a op b as BOOL."""
    type = BOOL if a.type is b.type is BOOL else arithmetic(a.type, b.type, real)
    return Apply(op, (cast(a, type), cast(b, type)))


def negative(a: Expression) -> Expression:
    """-a."""
    a = cast(a, machine(a.type))
    if isinstance(a, Constant) and not (a.type.floating and a.value == 0):
        return Constant(-a.value, a.type)
    return Apply(Op.NEG, (a,))


def power(a: Expression, b: Expression, real: ScalarType) -> Expression:
    """a ** b. A float to a whole power is multiplied out where the exponent is small."""
    if isinstance(b, Constant) and not b.type.floating and 0 <= b.value <= LARGEST_POWER:
        base = cast(a, machine(a.type))
        result: Expression = Constant(1, base.type) if b.value == 0 else base
        for _ in range(int(b.value) - 1):
            result = Apply(Op.MUL, (result, base))
        return result
    if a.type.floating and not b.type.floating:
        return Apply(Op.POW, (a, cast(b, a.type)))
    type = arithmetic(a.type, b.type, real)
    return Apply(Op.POW, (cast(a, type), cast(b, type)))


def _absolute(values: list[Expression], real: ScalarType) -> Expression:
    (value,) = values
    value = cast(value, machine(value.type)) if value.type is BOOL else value
    if value.type.integer and not value.type.signed:
        return value
    return Apply(Op.ABS, (value,))


def _floating(op: Op) -> Rule:
    def rule(values: list[Expression], real: ScalarType) -> Expression:
        type = values[0].type
        for value in values[1:]:
            type = arithmetic(type, value.type, real)
        type = type if type.floating else real
        return Apply(op, tuple(cast(value, type) for value in values))

    return rule


def _whole(op: Op) -> Rule:
    """math.floor and its like: an integer comes out."""

    def rule(values: list[Expression], real: ScalarType) -> Expression:
        value = values[0]
        return cast(Apply(op, (value,)) if value.type.floating else value, I64)

    return rule


def _kept(op: Op) -> Rule:
    """np.floor and its like: the type stays."""
    return lambda values, real: Apply(op, (values[0],)) if values[0].type.floating else values[0]


def _fold(pick: Callable[[Expression, Expression], Expression]) -> Rule:
    """min or max of several."""

    def rule(values: list[Expression], real: ScalarType) -> Expression:
        type = values[0].type
        for value in values[1:]:
            type = join(type, value.type, real)
        result = cast(values[0], type)
        for value in values[1:]:
            result = pick(result, cast(value, type))
        return result

    return rule


def _common(op: Op) -> Rule:
    def rule(values: list[Expression], real: ScalarType) -> Expression:
        type = join(values[0].type, values[1].type, real)
        return Apply(op, (cast(values[0], type), cast(values[1], type)))

    return rule


def _where(values: list[Expression], real: ScalarType) -> Expression:
    type = join(values[1].type, values[2].type, real)
    return Select(truth(values[0]), cast(values[1], type), cast(values[2], type))


def _test(op: Op) -> Rule:
    def rule(values: list[Expression], real: ScalarType) -> Expression:
        if values[0].type.floating:
            return Apply(op, (values[0],))
        return Constant(op is Op.ISFINITE, BOOL)

    return rule


def _logical(op: Op) -> Rule:
    return lambda values, real: Apply(op, (truth(values[0]), truth(values[1])))


def _scaled(factor: float) -> Rule:
    def rule(values: list[Expression], real: ScalarType) -> Expression:
        type = values[0].type if values[0].type.floating else real
        return Apply(Op.MUL, (cast(values[0], type), Constant(factor, type)))

    return rule


def _table() -> dict[str, tuple[int, Rule]]:
    """The functions by qualified name, with how many numbers they take; -1: two or more."""
    table: dict[str, tuple[int, Rule]] = {}
    for name, op in UNARY.items():
        table[f"math.{name}"] = table[f"numpy.{name}"] = (1, _floating(op))
    for name, op in BINARY.items():
        table[f"math.{name}"] = table[f"numpy.{name}"] = (2, _floating(op))
    for name, op in TESTS.items():
        table[f"math.{name}"] = table[f"numpy.{name}"] = (1, _test(op))
    for name, op in ROUNDING.items():
        table[f"math.{name}"], table[f"numpy.{name}"] = (1, _whole(op)), (1, _kept(op))
    for name, factor in (("radians", math.pi / 180), ("degrees", 180 / math.pi)):
        table[f"math.{name}"] = table[f"numpy.{name}"] = (1, _scaled(factor))
    table["numpy.deg2rad"], table["numpy.rad2deg"] = table["math.radians"], table["math.degrees"]
    for name in ("builtins.abs", "numpy.abs", "numpy.absolute"):
        table[name] = (1, _absolute)
    table["math.fabs"] = table["numpy.fabs"] = (1, _floating(Op.ABS))
    table["builtins.round"] = (1, _whole(Op.ROUND))
    table["builtins.min"], table["builtins.max"] = (-1, _fold(smaller)), (-1, _fold(larger))
    table["numpy.maximum"], table["numpy.minimum"] = (2, _common(Op.MAXIMUM)), (2, _common(Op.MINIMUM))
    table["numpy.where"] = (3, _where)
    table["numpy.sign"] = (1, lambda values, real: Apply(Op.SIGN, (values[0],)))
    table["numpy.square"] = (1, lambda values, real: Apply(Op.MUL, (values[0], values[0])))
    table["numpy.logical_and"], table["numpy.logical_or"] = (2, _logical(Op.AND)), (2, _logical(Op.OR))
    table["numpy.logical_not"] = (1, lambda values, real: negation(truth(values[0])))
    table["math.pow"] = (2, _floating(Op.POW))
    table["numpy.power"] = table["builtins.pow"] = (2, lambda values, real: power(values[0], values[1], real))
    for name, type in CASTS.items():
        table[name] = (1, lambda values, real, type=type: truth(values[0]) if type is BOOL else cast(values[0], type))
    table["builtins.float"] = (1, lambda values, real: cast(values[0], real))
    return table


FUNCTIONS = _table()
