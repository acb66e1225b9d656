"""C++ text of a kernel, in the convention of `kernelwright.compile`. All spelling of C++ is in this file.

The body of a parallel loop becomes a function of its own: its pointers are `__restrict`, so the compiler knows that
outputs and inputs do not overlap, and they are values, so a store to one of them cannot seem to change the others.
"""

from kernelwright.errors import LoweringError
from kernelwright.loops.expressions import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Expression,
    Load,
    Op,
    Select,
    Variable,
    address,
    size_of,
)
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Move, Reduction, Statement, Store, Update
from kernelwright.loops.types import ScalarType

MEMORY = {
    ScalarType.BOOL: "uint8",
    ScalarType.INT32: "int32",
    ScalarType.INT64: "int64",
    ScalarType.FLOAT16: "half",
    ScalarType.BFLOAT16: "bfloat16",
    ScalarType.FLOAT32: "float",
    ScalarType.FLOAT64: "double",
}
_VALUE = {
    ScalarType.BOOL: "bool",
    ScalarType.INT32: "int32",
    ScalarType.INT64: "int64",
    ScalarType.FLOAT32: "float",
    ScalarType.FLOAT64: "double",
}
_INFIX = {
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
_TIGHTNESS = {
    **dict.fromkeys((Op.MUL, Op.DIV, Op.FLOOR_DIV, Op.MOD), 5),
    **dict.fromkeys((Op.ADD, Op.SUB), 4),
    **dict.fromkeys((Op.LT, Op.LE, Op.GT, Op.GE), 3),
    **dict.fromkeys((Op.EQ, Op.NE), 2),
    **dict.fromkeys((Op.AND, Op.OR), 1),
}
_ATOM = 9
_INDENT = "    "


def print_cpp(kernel: Kernel) -> str:
    """The kernel as C++ text: functions for its parallel loops, then the kernel itself."""
    return _Printer(kernel).text()


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.functions: list[str] = []
        self.shared: list[Buffer] = []
        """Local buffers outside of parallel loops, which their functions are given."""

    def text(self) -> str:
        kernel = self.kernel
        body = self._body(kernel.body, 1)
        parameters = ", ".join(self._parameters(""))
        note = "".join(f"// {line}\n" for line in kernel.note.splitlines())
        main = f"kernel void {kernel.name}({parameters}) {{\n{body}}}\n"
        return "\n".join([note + (self.functions[0] if self.functions else main), *self.functions[1:]]) + (
            "\n" + main if self.functions else ""
        )

    def _parameters(self, qualifier: str) -> list[str]:
        kernel = self.kernel
        return [
            *(f"{MEMORY[buffer.type]}*{qualifier} {buffer.name}" for buffer in kernel.outputs),
            *(f"const {MEMORY[buffer.type]}*{qualifier} {buffer.name}" for buffer in kernel.inputs),
            *(f"int64 {size}" for size in kernel.sizes),
        ]

    # ---- statements ---------------------------------------------------------------------------------------------

    def _body(self, body: tuple[Statement, ...], depth: int) -> str:
        return "".join(self._statement(statement, depth) for statement in body)

    def _statement(self, statement: Statement, depth: int) -> str:
        pad = _INDENT * depth
        match statement:
            case Let(variable, value):
                return f"{pad}const {_VALUE[variable.type]} {variable.name} = {self._value(value)};\n"
            case Declare(variable, reduction):
                return f"{pad}{_VALUE[variable.type]} {variable.name} = {_neutral(reduction, variable.type)};\n"
            case Update(variable, reduction, value):
                name = variable.name
                return f"{pad}{name} = math::{reduction.value}_step({name}, {self._value(value)});\n"
            case Store(buffer, index, value):
                converted = self._stored(buffer, self._value(value), value.type)
                return f"{pad}{buffer.name}[{self._value(address(buffer, index))}] = {converted};\n"
            case Local(buffer):
                if depth == 1:
                    self.shared.append(buffer)
                count = 1
                for size in buffer.shape:
                    count *= int(size)
                return f"{pad}alignas(64) {MEMORY[buffer.type]} {buffer.name}[{count}];\n"
            case Move(target, target_index, source, source_index, (rows, columns), strides):
                to, of = self._place(target, target_index), self._place(source, source_index)
                if strides is None:
                    return f"{pad}tiles::stream({to}, {of}, {self._value(columns)});\n"
                steps = [self._value(size_of(stride)) for stride in strides]
                sizes = f"{self._value(rows)}, {self._value(columns)}"
                return f"{pad}tiles::transpose({to}, {steps[0]}, {of}, {steps[1]}, {sizes});\n"
            case For():
                return self._parallel(statement, depth) if statement.grain else self._loop(statement, depth)
        raise LoweringError(f"no C++ for {type(statement).__name__}")

    def _place(self, buffer: Buffer, index: tuple[Expression, ...]) -> str:
        place = address(buffer, index)
        return buffer.name if place == Constant(0, ScalarType.INT64) else f"{buffer.name} + {self._value(place)}"

    def _stored(self, buffer: Buffer, value: str, type: ScalarType) -> str:
        return value if buffer.type in (type, ScalarType.BOOL) else f"({MEMORY[buffer.type]})({value})"

    def _loop(self, loop: For, depth: int) -> str:
        return self._for(loop, self._value(loop.start), self._value(loop.stop), depth)

    def _for(self, loop: For, start: str, stop: str, depth: int) -> str:
        pad, i = _INDENT * depth, loop.index
        pragma = ""
        if loop.interleave:
            pragma = f"#pragma clang loop vectorize(assume_safety) interleave_count({loop.interleave})\n"
        elif loop.unroll:
            pragma = "#pragma clang loop unroll(full)\n"
        head = f"{pad}for (int64 {i} = {start}; {i} < {stop}; ++{i}) {{\n"
        return f"{pragma}{head}{self._body(loop.body, depth + 1)}{pad}}}\n"

    def _parallel(self, loop: For, depth: int) -> str:
        """The loop's body as a function over a range of tasks, and the call that shares the tasks out."""
        pad, kernel = _INDENT * depth, self.kernel
        suffix = "" if not self.functions else f"_{len(self.functions)}"
        name = f"{kernel.name}_part{suffix}"
        shared = list(self.shared)
        parameters = ["int64 begin", "int64 end", *self._parameters(" __restrict")]
        parameters += [f"{MEMORY[buffer.type]}* __restrict {buffer.name}" for buffer in shared]
        self.functions.append(
            f"static void {name}({', '.join(parameters)}) {{\n{self._for(loop, 'begin', 'end', 1)}}}\n"
        )
        arguments = [*(buffer.name for buffer in (*kernel.outputs, *kernel.inputs)), *kernel.sizes]
        captured = "".join(f", {buffer.name} = &{buffer.name}[0]" for buffer in shared)
        arguments += [buffer.name for buffer in shared]
        return (
            f"{pad}parallel_for({self._value(loop.stop)}, {loop.grain}, [={captured}](int64 begin, int64 end) {{\n"
            f"{pad}{_INDENT}{name}({', '.join(['begin', 'end', *arguments])});\n"
            f"{pad}}});\n"
        )

    # ---- expressions --------------------------------------------------------------------------------------------

    def _value(self, expression: Expression) -> str:
        return self._expression(expression)[0]

    def _expression(self, expression: Expression) -> tuple[str, int]:
        """The text and how tightly its outermost operation binds."""
        match expression:
            case Constant(value, type):
                return _constant(value, type), _ATOM
            case Variable(name):
                return name, _ATOM
            case Load(buffer, index):
                text = f"{buffer.name}[{self._value(address(buffer, index))}]"
                if buffer.type is ScalarType.BOOL:
                    return f"({text} != 0)", _ATOM
                return (text, _ATOM) if buffer.type is buffer.type.compute else (f"(float){text}", _ATOM - 1)
            case Select(condition, then, otherwise):
                parts = [self._bracketed(part, 1) for part in (condition, then, otherwise)]
                return f"{parts[0]} ? {parts[1]} : {parts[2]}", 0
            case Cast(to, operand):
                text = self._bracketed(operand, _ATOM)
                if to is ScalarType.BOOL:
                    return f"({text} != 0)", _ATOM
                if to is to.compute:
                    return f"({_VALUE[to]}){text}", _ATOM - 1
                return f"(float)({MEMORY[to]}){text}", _ATOM - 1
            case Apply(op, operands):
                return self._apply(op, operands)
        raise LoweringError(f"no C++ for {type(expression).__name__}")

    def _apply(self, op: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
        if op in _INFIX:
            tight = _TIGHTNESS[op]
            left, right = self._bracketed(operands[0], tight), self._bracketed(operands[1], tight + 1)
            return f"{left} {_INFIX[op]} {right}", tight
        if op is Op.NEG:
            return f"-{self._bracketed(operands[0], _ATOM)}", _ATOM - 1
        if op is Op.NOT:
            return f"!{self._bracketed(operands[0], _ATOM)}", _ATOM - 1
        # An integer constant is a C++ int; templates want both operands of one type.
        values = [
            f"int64({operand.value})"
            if isinstance(operand, Constant) and operand.type is ScalarType.INT64
            else self._value(operand)
            for operand in operands
        ]
        return f"math::{op.value}({', '.join(values)})", _ATOM

    def _bracketed(self, expression: Expression, needed: int) -> str:
        text, tight = self._expression(expression)
        return text if tight >= needed else f"({text})"


def _neutral(reduction: Reduction, type: ScalarType) -> str:
    if reduction is Reduction.SUM:
        return "0"
    sign = 1 if reduction is Reduction.MINIMUM else -1
    return _constant(sign * float("inf") if type.floating else sign * (2**63 - 1), type)


def _constant(value: float | int | bool, type: ScalarType) -> str:
    if type is ScalarType.BOOL:
        return "true" if value else "false"
    if not type.floating:
        number = int(value)
        if abs(number) >= 2**31:
            return f"int64({number})" if number != -(2**63) else "(-int64(9223372036854775807) - 1)"
        return f"({number})" if number < 0 else str(number)
    number = float(value)
    if number != number:
        return '__builtin_nanf("")'
    if number in (float("inf"), float("-inf")):
        return "__builtin_inff()" if number > 0 else "(-__builtin_inff())"
    text = repr(number) + ("" if type is ScalarType.FLOAT64 else "f")
    return f"({text})" if text.startswith("-") else text
