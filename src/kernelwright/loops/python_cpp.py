"""C++ text of expressions with Python's semantics, and of a program's straight commands."""

from kernelwright.loops.cpp_expressions import ATOM, VALUE, CppExpressions, constant
from kernelwright.loops.expressions import Buffer, Cast, Constant, Expression, Load, Op, address
from kernelwright.loops.types import ScalarType

_WRAPPING = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul"}
_BITS = {Op.BIT_AND: "&", Op.BIT_OR: "|", Op.BIT_XOR: "^"}
_OWN = {
    Op.FLOORED_DIV: "floored_div",
    Op.FLOORED_MOD: "floored_mod",
    Op.SHIFT_LEFT: "shift_left",
    Op.SHIFT_RIGHT: "shift_right",
    Op.POW: "power",
    Op.ABS: "magnitude",
    Op.GAMMA: "gamma",
    **{op: op.value for op in (Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH)},
    **{op: op.value for op in (Op.ASINH, Op.ACOSH, Op.ATANH, Op.EXP2, Op.LOG2, Op.LOG10, Op.CBRT, Op.ERFC)},
    **{op: op.value for op in (Op.LGAMMA, Op.ATAN2, Op.HYPOT, Op.FMOD, Op.COPYSIGN)},
}
_PLAIN = CppExpressions()
"""For the place of an element: an index that was checked overflows nowhere."""
_TESTS = {Op.ISNAN: "__builtin_isnan", Op.ISINF: "__builtin_isinf", Op.ISFINITE: "__builtin_isfinite"}


class PythonExpressions(CppExpressions):
    """Integers wrap, and so on: templates/python.hpp is what it calls."""

    def expression(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Constant(value, type) if not type.floating:
                text = constant(value, type)
                if type is ScalarType.BOOL or text.startswith(VALUE[type]):
                    return text, ATOM
                return f"{VALUE[type]}({int(value)}u)" if value > 2**31 else f"{VALUE[type]}({text})", ATOM
            case Load(buffer, index):
                text = f"{buffer.name}[{_PLAIN.value(address(buffer, index))}]"
                return f"({text} != 0)" if buffer.type is ScalarType.BOOL else text, ATOM
            case Cast(to, operand) if to.integer and operand.type.floating:
                return f"py::whole<{VALUE[to]}>({self.value(operand)})", ATOM
        return super().expression(expression)

    def apply(self, op: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
        floating = operands[0].type.floating
        if op in _WRAPPING and not floating:
            return f"py::{_WRAPPING[op]}({self._typed(operands)})", ATOM
        if op is Op.NEG and not floating:
            return f"py::neg({self._typed(operands)})", ATOM
        if op in _BITS:
            left, right = (self.bracketed(operand, ATOM) for operand in operands)
            return f"{left} {_BITS[op]} {right}", 0
        if op is Op.BIT_NOT:
            return f"{VALUE[operands[0].type]}(~{self.bracketed(operands[0], ATOM)})", ATOM
        if op in _OWN:
            return f"py::{_OWN[op]}({self._typed(operands)})", ATOM
        if op in _TESTS:
            return f"{_TESTS[op]}({self.value(operands[0])})", ATOM
        return super().apply(op, operands)

    def element(self, buffer: Buffer, index: tuple[Expression, ...]) -> str:
        """An element as what is assigned to."""
        return f"{buffer.name}[{_PLAIN.value(address(buffer, index))}]"

    def _typed(self, operands: tuple[Expression, ...]) -> str:
        return ", ".join(self.value(operand) for operand in operands)
