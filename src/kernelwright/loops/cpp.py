"""C++ text of a kernel, in the convention of `kernelwright.compile`. All spelling of C++ is in this file.

The body of a parallel loop becomes a function of its own: its pointers are `__restrict`, so the compiler knows that
outputs and inputs do not overlap, and they are values, so a store to one of them cannot seem to change the others.
"""

from kernelwright.loops.cpp_expressions import MEMORY
from kernelwright.loops.expressions import Buffer, size_of
from kernelwright.loops.nest import For, Kernel, Move
from kernelwright.loops.statements_cpp import INDENT, StatementPrinter, elements


def print_cpp(kernel: Kernel) -> str:
    """The kernel as C++ text: functions for its parallel loops, then the kernel itself."""
    return _Printer(kernel).text()


class _Printer(StatementPrinter):
    language = "C++"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.functions: list[str] = []
        self.shared: list[Buffer] = []
        """Local buffers outside of parallel loops, which their functions are given."""

    def text(self) -> str:
        kernel = self.kernel
        body = self.body(kernel.body, 1)
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

    def local(self, buffer: Buffer, depth: int) -> str:
        if depth == 1:
            self.shared.append(buffer)
        return f"{INDENT * depth}alignas(64) {MEMORY[buffer.type]} {buffer.name}[{elements(buffer)}];\n"

    def move(self, move: Move, depth: int) -> str:
        pad, (rows, columns) = INDENT * depth, move.sizes
        to, of = self.place(move.target, move.target_index), self.place(move.source, move.source_index)
        if move.strides is None:
            return f"{pad}tiles::stream({to}, {of}, {self.value(columns)});\n"
        steps = [self.value(size_of(stride)) for stride in move.strides]
        sizes = f"{self.value(rows)}, {self.value(columns)}"
        return f"{pad}tiles::transpose({to}, {steps[0]}, {of}, {steps[1]}, {sizes});\n"

    def loop(self, loop: For, depth: int) -> str:
        if loop.grain:
            return self._parallel(loop, depth)
        return self._annotated(loop, self.value(loop.start), self.value(loop.stop), depth)

    def _annotated(self, loop: For, start: str, stop: str, depth: int) -> str:
        pragma = ""
        if loop.interleave:
            pragma = f"#pragma clang loop vectorize(assume_safety) interleave_count({loop.interleave})\n"
        elif loop.unroll:
            pragma = "#pragma clang loop unroll(full)\n"
        return pragma + self.for_(loop, start, stop, depth)

    def _parallel(self, loop: For, depth: int) -> str:
        """The loop's body as a function over a range of tasks, and the call that shares the tasks out."""
        pad, kernel = INDENT * depth, self.kernel
        suffix = "" if not self.functions else f"_{len(self.functions)}"
        name = f"{kernel.name}_part{suffix}"
        shared = list(self.shared)
        parameters = ["int64 begin", "int64 end", *self._parameters(" __restrict")]
        parameters += [f"{MEMORY[buffer.type]}* __restrict {buffer.name}" for buffer in shared]
        self.functions.append(
            f"static void {name}({', '.join(parameters)}) {{\n{self._annotated(loop, 'begin', 'end', 1)}}}\n"
        )
        arguments = [*(buffer.name for buffer in (*kernel.outputs, *kernel.inputs)), *kernel.sizes]
        captured = "".join(f", {buffer.name} = &{buffer.name}[0]" for buffer in shared)
        arguments += [buffer.name for buffer in shared]
        return (
            f"{pad}parallel_for({self.value(loop.stop)}, {loop.grain}, [={captured}](int64 begin, int64 end) {{\n"
            f"{pad}{INDENT}{name}({', '.join(['begin', 'end', *arguments])});\n"
            f"{pad}}});\n"
        )
