"""Which type comes out: Numba's rules. Integers compute in 64 bits, mixed numbers in the wider floating type.

`real` is the floating type of literals, of quotients of integers, and of an integer of 32 bits or more that meets a
float32. It is float64 in Numba. A device without float64 passes float32.
"""

from kernelwright.loops.expressions import Apply, Cast, Constant, Expression, Op, Select
from kernelwright.loops.types import ScalarType

BOOL, I64, U64 = ScalarType.BOOL, ScalarType.INT64, ScalarType.UINT64
F32, F64 = ScalarType.FLOAT32, ScalarType.FLOAT64
_NARROW = (BOOL, ScalarType.INT8, ScalarType.INT16, ScalarType.UINT8, ScalarType.UINT16)


def machine(type: ScalarType) -> ScalarType:
    """The type an integer computes in."""
    if type.floating:
        return type
    return U64 if type.integer and not type.signed else I64


def arithmetic(a: ScalarType, b: ScalarType, real: ScalarType) -> ScalarType:
    """The type of a + b."""
    if a.floating and b.floating:
        return F64 if F64 in (a, b) else F32
    if a.floating or b.floating:
        floating, other = (a, b) if a.floating else (b, a)
        return F64 if floating is F64 else (F32 if other in _NARROW else real)
    return I64 if I64 in (machine(a), machine(b)) else U64


def quotient(a: ScalarType, b: ScalarType, real: ScalarType) -> ScalarType:
    """The type of a / b."""
    common = arithmetic(a, b, real)
    return common if common.floating else real


def join(a: ScalarType, b: ScalarType, real: ScalarType) -> ScalarType:
    """The type of a variable that takes values of both: it holds every value of either, or is `real`."""
    if a is b:
        return a
    if a.floating or b.floating:
        return arithmetic(a, b, real)
    if BOOL in (a, b):
        return b if a is BOOL else a
    if a.signed is b.signed:
        return a if a.bytes > b.bytes else b
    signed, unsigned = (a, b) if a.signed else (b, a)
    if signed.bytes > unsigned.bytes:
        return signed
    wider = {1: ScalarType.INT16, 2: ScalarType.INT32, 4: I64}
    return wider.get(unsigned.bytes, real)


def cast(value: Expression, to: ScalarType) -> Expression:
    """The value in another type; a constant is converted at once."""
    if value.type is to:
        return value
    if isinstance(value, Constant):
        if to is BOOL:
            return Constant(bool(value.value), to)
        if to is F64 or (to.floating and value.type is not F64):
            return Constant(float(value.value), to)
        if to.integer and not value.type.floating:
            return Constant(wrapped(int(value.value), to), to)
    return Cast(to, value)


def wrapped(value: int, type: ScalarType) -> int:
    """The value modulo the integer type's range."""
    bits = type.bytes * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if type.signed and value >> (bits - 1) else value


def truth(value: Expression) -> Expression:
    """bool(value)."""
    if value.type is BOOL:
        return value
    if isinstance(value, Constant):
        return Constant(bool(value.value), BOOL)
    return Apply(Op.NE, (value, Constant(0, value.type)))


def negation(value: Expression) -> Expression:
    """not value."""
    if isinstance(value, Constant):
        return Constant(not value.value, BOOL)
    return Apply(Op.NOT, (value,))


def larger(a: Expression, b: Expression) -> Expression:
    """Python's max of two: the first where neither is larger, whatever NaN there is."""
    return Select(Apply(Op.GT, (b, a)), b, a)


def smaller(a: Expression, b: Expression) -> Expression:
    """Python's min of two."""
    return Select(Apply(Op.LT, (b, a)), b, a)
