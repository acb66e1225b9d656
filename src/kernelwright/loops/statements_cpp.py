"""Text of a kernel's statements: what the printers of kernels share."""

import math

from kernelwright.errors import LoweringError
from kernelwright.loops.cpp_expressions import MEMORY, VALUE, CppExpressions
from kernelwright.loops.expressions import Buffer, Constant, Expression, address
from kernelwright.loops.nest import Declare, For, Let, Local, Move, Statement, Store, Update, neutral
from kernelwright.loops.types import ScalarType

INDENT = "    "


class StatementPrinter(CppExpressions):
    """Prints statements. A language says how it spells local memory, moves of tiles and loops."""

    language: str

    def body(self, body: tuple[Statement, ...], depth: int) -> str:
        return "".join(self.statement(statement, depth) for statement in body)

    def statement(self, statement: Statement, depth: int) -> str:
        pad = INDENT * depth
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
                return self.local(buffer, depth)
            case Move():
                return self.move(statement, depth)
            case For():
                return self.loop(statement, depth)
        raise LoweringError(f"no {self.language} for {type(statement).__name__}")

    def local(self, buffer: Buffer, depth: int) -> str:
        raise NotImplementedError

    def move(self, move: Move, depth: int) -> str:
        raise NotImplementedError

    def loop(self, loop: For, depth: int) -> str:
        raise NotImplementedError

    def for_(self, loop: For, start: str, stop: str, depth: int) -> str:
        """The loop as it stands in all languages."""
        pad, i = INDENT * depth, loop.index
        return f"{pad}for (int64 {i} = {start}; {i} < {stop}; ++{i}) {{\n{self.body(loop.body, depth + 1)}{pad}}}\n"

    def place(self, buffer: Buffer, index: tuple[Expression, ...]) -> str:
        """Where an element lies, as a pointer."""
        place = address(buffer, index)
        return buffer.name if place == Constant(0, ScalarType.INT64) else f"{buffer.name} + {self.value(place)}"

    def _stored(self, buffer: Buffer, value: str, type: ScalarType) -> str:
        return value if buffer.type in (type, ScalarType.BOOL) else f"({MEMORY[buffer.type]})({value})"


def elements(buffer: Buffer) -> int:
    """How many a local buffer has."""
    return math.prod(int(size) for size in buffer.shape)
