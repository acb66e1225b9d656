"""A kernel in Metal Shading Language: a parallel loop that is all of the kernel becomes a grid, with a thread for each
turn. What stands inside it a thread does alone, reductions too; a kernel of another form is one thread's work.
"""

from dataclasses import dataclass
from functools import cache

from kernelwright.errors import LoweringError
from kernelwright.loops.cpp_expressions import ATOM, MEMORY
from kernelwright.loops.expressions import Buffer, Constant, Expression, size_of, walk
from kernelwright.loops.filled import TEMPLATES
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Move, Store, Update, statements
from kernelwright.loops.program_msl import MSL, msl_template
from kernelwright.loops.staging import ONE, less
from kernelwright.loops.statements_cpp import INDENT, StatementPrinter, elements
from kernelwright.loops.types import ScalarType

_PARAMETERS = 31
"""Buffers of a Metal kernel: scalars are buffers too."""


@dataclass(frozen=True)
class MetalKernel:
    """Text, to stand after `msl_kernel_template()`, and how many threads run it."""

    text: str
    threads: Expression
    """From the kernel's sizes."""


@cache
def msl_kernel_template() -> str:
    """What all kernels of a file share."""
    return f"{msl_template()}\n{(TEMPLATES / 'metal_kernels.hpp').read_text()}"


def print_msl(kernel: Kernel) -> MetalKernel:
    """The kernel for Metal; a call passes outputs, inputs, then sizes, as in C++.

    Vectors and unrolling are left to Metal's compiler. Raises LoweringError where the kernel computes in float64
    or has more parameters than Metal passes.
    """
    _check(kernel)
    return _Printer(kernel).printed()


def _check(kernel: Kernel) -> None:
    types = {buffer.type for buffer in (*kernel.outputs, *kernel.inputs)}
    for statement in statements(kernel.body):
        match statement:
            case Let(_, value) | Update(_, _, value) | Store(_, _, value):
                types |= {node.type for node in walk(value)}
            case Declare(variable):
                types.add(variable.type)
            case Local(buffer):
                types.add(buffer.type)
            case _:
                pass
    if ScalarType.FLOAT64 in types:
        raise LoweringError(f"kernel {kernel.name} computes in float64, which Metal lacks")
    count = len(kernel.outputs) + len(kernel.inputs) + len(kernel.sizes)
    if count > _PARAMETERS:
        raise LoweringError(f"kernel {kernel.name} has {count} parameters; Metal passes {_PARAMETERS}")


class _Printer(StatementPrinter):
    language = "Metal"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def printed(self) -> MetalKernel:
        kernel = self.kernel
        match kernel.body:
            case (For() as tasks,) if tasks.grain:
                start = "" if tasks.start == Constant(0, ScalarType.INT64) else f" + {self.bracketed(tasks.start, 5)}"
                head = f"{INDENT}const int64 {tasks.index} = {MSL.number}{start};\n"
                threads, text = less(tasks.stop, tasks.start), head + self.body(tasks.body, 1)
            case body:
                threads, text = ONE, self.body(body, 1)
        parameters = [f"{MSL.device}{MEMORY[buffer.type]}* {buffer.name}" for buffer in kernel.outputs]
        parameters += [f"const {MSL.device}{MEMORY[buffer.type]}* {buffer.name}" for buffer in kernel.inputs]
        parameters += [MSL.scalar.format(type="int64", name=size) for size in kernel.sizes]
        parameters += MSL.thread[:1]
        note = "".join(f"// {line}\n" for line in kernel.note.splitlines())
        return MetalKernel(f"{note}{MSL.head}{kernel.name}({', '.join(parameters)}) {{\n{text}}}\n", threads)

    def local(self, buffer: Buffer, depth: int) -> str:
        return f"{INDENT * depth}{MEMORY[buffer.type]} {buffer.name}[{elements(buffer)}];\n"

    def move(self, move: Move, depth: int) -> str:
        """Element by element: no thread reads past a cache, and a grid turns tiles by itself."""
        pad, (rows, columns) = INDENT * depth, [self.value(size) for size in move.sizes]
        to, of = self.place(move.target, move.target_index), self.place(move.source, move.source_index)
        if move.strides is None:
            return f"{pad}for (int64 kw_c = 0; kw_c < {columns}; ++kw_c) ({to})[kw_c] = ({of})[kw_c];\n"
        across, along = [self.bracketed(size_of(stride), 5) for stride in move.strides]
        return (
            f"{pad}for (int64 kw_r = 0; kw_r < {rows}; ++kw_r)\n"
            f"{pad}{INDENT}for (int64 kw_c = 0; kw_c < {columns}; ++kw_c)\n"
            f"{pad}{INDENT * 2}({to})[kw_c * {across} + kw_r] = ({of})[kw_r * {along} + kw_c];\n"
        )

    def loop(self, loop: For, depth: int) -> str:
        return self.for_(loop, self.value(loop.start), self.value(loop.stop), depth)

    def expression(self, expression: Expression) -> tuple[str, int]:
        special = MSL.special(expression)
        return super().expression(expression) if special is None else (special, ATOM)
