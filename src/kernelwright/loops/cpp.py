"""C++ text of a kernel, in the convention of `kernelwright.compile`. All spelling of C++ is in this file.

The body of a parallel loop becomes a function of its own: its pointers are `__restrict`, so the compiler knows that
outputs and inputs do not overlap, and they are values, so a store to one of them cannot seem to change the others.
"""

from kernelwright.errors import LoweringError
from kernelwright.loops.cpp_expressions import MEMORY, VALUE, CppExpressions
from kernelwright.loops.expressions import (
    Buffer,
    Constant,
    Expression,
    address,
    size_of,
)
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Move, Statement, Store, Update, neutral
from kernelwright.loops.types import ScalarType

_INDENT = "    "


def print_cpp(kernel: Kernel) -> str:
    """The kernel as C++ text: functions for its parallel loops, then the kernel itself."""
    return _Printer(kernel).text()


class _Printer(CppExpressions):
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
                return f"{pad}const {VALUE[variable.type]} {variable.name} = {self.value(value)};\n"
            case Declare(variable, reduction):
                start = self.value(neutral(reduction, variable.type))
                return f"{pad}{VALUE[variable.type]} {variable.name} = {start};\n"
            case Update(variable, reduction, value):
                name = variable.name
                return f"{pad}{name} = math::{reduction.value}_step({name}, {self.value(value)});\n"
            case Store(buffer, index, value):
                converted = self._stored(buffer, self.value(value), value.type)
                return f"{pad}{buffer.name}[{self.value(address(buffer, index))}] = {converted};\n"
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
                    return f"{pad}tiles::stream({to}, {of}, {self.value(columns)});\n"
                steps = [self.value(size_of(stride)) for stride in strides]
                sizes = f"{self.value(rows)}, {self.value(columns)}"
                return f"{pad}tiles::transpose({to}, {steps[0]}, {of}, {steps[1]}, {sizes});\n"
            case For():
                return self._parallel(statement, depth) if statement.grain else self._loop(statement, depth)
        raise LoweringError(f"no C++ for {type(statement).__name__}")

    def _place(self, buffer: Buffer, index: tuple[Expression, ...]) -> str:
        place = address(buffer, index)
        return buffer.name if place == Constant(0, ScalarType.INT64) else f"{buffer.name} + {self.value(place)}"

    def _stored(self, buffer: Buffer, value: str, type: ScalarType) -> str:
        return value if buffer.type in (type, ScalarType.BOOL) else f"({MEMORY[buffer.type]})({value})"

    def _loop(self, loop: For, depth: int) -> str:
        return self._for(loop, self.value(loop.start), self.value(loop.stop), depth)

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
            f"{pad}parallel_for({self.value(loop.stop)}, {loop.grain}, [={captured}](int64 begin, int64 end) {{\n"
            f"{pad}{_INDENT}{name}({', '.join(['begin', 'end', *arguments])});\n"
            f"{pad}}});\n"
        )
