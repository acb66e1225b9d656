"""C++ text of expressions, and the names of types: what both printers of C++ share."""

from kernelwright.errors import LoweringError
from kernelwright.loops.expressions import (
    Apply,
    Cast,
    Constant,
    Expression,
    Load,
    Op,
    Select,
    Variable,
    address,
)
from kernelwright.loops.types import ScalarType

MEMORY = {
    ScalarType.BOOL: "uint8",
    ScalarType.INT8: "int8",
    ScalarType.INT16: "int16",
    ScalarType.INT32: "int32",
    ScalarType.INT64: "int64",
    ScalarType.UINT8: "uint8",
    ScalarType.UINT16: "uint16",
    ScalarType.UINT32: "uint32",
    ScalarType.UINT64: "uint64",
    ScalarType.FLOAT16: "half",
    ScalarType.BFLOAT16: "bfloat16",
    ScalarType.FLOAT32: "float",
    ScalarType.FLOAT64: "double",
}
VALUE = {
    ScalarType.BOOL: "bool",
    ScalarType.INT8: "int8",
    ScalarType.INT16: "int16",
    ScalarType.INT32: "int32",
    ScalarType.INT64: "int64",
    ScalarType.UINT8: "uint8",
    ScalarType.UINT16: "uint16",
    ScalarType.UINT32: "uint32",
    ScalarType.UINT64: "uint64",
    ScalarType.FLOAT32: "float",
    ScalarType.FLOAT64: "double",
}
INFIX = {
    Op.ADD: "+",
    Op.SUB: "-",
    Op.MUL: "*",
    Op.DIV: "/",
    Op.FLOOR_DIV: "/",
    Op.MOD: "%",
    Op.LT: "<",
    Op.LE: "<=",
    Op.GT: ">",
    Op.GE: ">=",
    Op.EQ: "==",
    Op.NE: "!=",
    Op.AND: "&",
    Op.OR: "|",
}
# Tighter binds first. An operand of the same tightness is bracketed on the right, so that no sum is reordered.
TIGHTNESS = {
    **dict.fromkeys((Op.MUL, Op.DIV, Op.FLOOR_DIV, Op.MOD), 5),
    **dict.fromkeys((Op.ADD, Op.SUB), 4),
    **dict.fromkeys((Op.LT, Op.LE, Op.GT, Op.GE), 3),
    **dict.fromkeys((Op.EQ, Op.NE), 2),
    **dict.fromkeys((Op.AND, Op.OR), 1),
}
ATOM = 9


class CppExpressions:
    """Text of expressions. `value` gives it alone, `expression` with how tightly its outermost operation binds."""

    def value(self, expression: Expression) -> str:
        return self.expression(expression)[0]

    def expression(self, expression: Expression) -> tuple[str, int]:
        """The text and how tightly its outermost operation binds."""
        match expression:
            case Constant(value, type):
                return constant(value, type), ATOM
            case Variable(name):
                return name, ATOM
            case Load(buffer, index):
                text = f"{buffer.name}[{self.value(address(buffer, index))}]"
                if buffer.type is ScalarType.BOOL:
                    return f"({text} != 0)", ATOM
                return (text, ATOM) if buffer.type is buffer.type.compute else (f"(float){text}", ATOM - 1)
            case Select(condition, then, otherwise):
                parts = [self.bracketed(part, 1) for part in (condition, then, otherwise)]
                return f"{parts[0]} ? {parts[1]} : {parts[2]}", 0
            case Cast(to, operand):
                text = self.bracketed(operand, ATOM)
                if to is ScalarType.BOOL:
                    return f"({text} != 0)", ATOM
                if to is to.compute:
                    return f"({VALUE[to]}){text}", ATOM - 1
                return f"(float)({MEMORY[to]}){text}", ATOM - 1
            case Apply(op, operands):
                return self.apply(op, operands)
        raise LoweringError(f"no C++ for {type(expression).__name__}")

    def apply(self, op: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
        if op in INFIX:
            tight = TIGHTNESS[op]
            left, right = self.bracketed(operands[0], tight), self.bracketed(operands[1], tight + 1)
            return f"{left} {INFIX[op]} {right}", tight
        if op is Op.NEG:
            return f"-{self.bracketed(operands[0], ATOM)}", ATOM - 1
        if op is Op.NOT:
            return f"!{self.bracketed(operands[0], ATOM)}", ATOM - 1
        # An integer constant is a C++ int; templates want both operands of one type.
        values = [
            f"int64({operand.value})"
            if isinstance(operand, Constant) and operand.type is ScalarType.INT64
            else self.value(operand)
            for operand in operands
        ]
        return f"math::{op.value}({', '.join(values)})", ATOM

    def bracketed(self, expression: Expression, needed: int) -> str:
        text, tight = self.expression(expression)
        return text if tight >= needed else f"({text})"


def constant(value: float | int | bool, type: ScalarType) -> str:
    if type is ScalarType.BOOL:
        return "true" if value else "false"
    if not type.floating:
        number = int(value)
        if abs(number) >= 2**31:
            return f"int64({number})" if number != -(2**63) else "(-int64(9223372036854775807) - 1)"
        return f"({number})" if number < 0 else str(number)
    number = float(value)
    if number != number:
        return '__builtin_nan("")' if type is ScalarType.FLOAT64 else '__builtin_nanf("")'
    if number in (float("inf"), float("-inf")):
        infinity = "__builtin_inf()" if type is ScalarType.FLOAT64 else "__builtin_inff()"
        return infinity if number > 0 else f"(-{infinity})"
    text = repr(number) + ("" if type is ScalarType.FLOAT64 else "f")
    return f"({text})" if text.startswith("-") else text
