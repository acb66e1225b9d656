"""C++ text of a program, run by one thread: see program_cpp.py for the convention."""

from collections.abc import Mapping

from kernelwright.errors import LoweringError
from kernelwright.loops.bounds import prove
from kernelwright.loops.cpp_expressions import MEMORY, VALUE
from kernelwright.loops.expressions import Apply, Buffer, Constant, Expression, Load
from kernelwright.loops.nest import Let, Local, Store
from kernelwright.loops.program import (
    Accumulate,
    ArrayType,
    Assign,
    Break,
    Command,
    Continue,
    Failure,
    If,
    Index,
    Loop,
    Program,
    Range,
    Require,
    Return,
)
from kernelwright.loops.python.promotion import cast
from kernelwright.loops.python_cpp import PythonExpressions
from kernelwright.loops.types import ScalarType

INDENT = "    "


class ProgramPrinter(PythonExpressions):
    """Prints one program."""

    def __init__(self, program: Program, boundscheck: bool) -> None:
        self.program = program
        self.boundscheck = boundscheck
        self.proven: frozenset[int] = frozenset()
        """Index commands, by id(), that need no check here."""
        self.careful = False
        """Whether this is the version of a loop that checks everything."""
        self.leave = "return "
        self.stored: Mapping[ScalarType, str] = MEMORY
        self.computed: Mapping[ScalarType, str] = VALUE
        """What types are called, in memory and where they are computed with."""

    def text(self) -> str:
        program = self.program
        lines = [f"// {program.name}", f'extern "C" int32 {program.symbol}(']
        lines += ["    const int64* const* arrays, const void* const* scalars, void* results, KwError* error) {"]
        lines += ["    (void)arrays, (void)scalars, (void)results;", "    error->set = 0;"]
        lines += [INDENT + line for line in (*self._arguments(), *self.preamble())]
        lines += [f"{INDENT}{VALUE[one.type]} {one.name} = 0;" for one in program.variables]
        lines += [INDENT + self.local_array(buffer) for buffer in program.locals]
        return "\n".join(lines) + "\n" + self.body(program.body, 1) + "    return 0;\n}\n"

    def _arguments(self) -> list[str]:
        lines = []
        buffers, scalars = iter(self.program.buffers), iter(self.program.scalars)
        arrays = numbers = 0
        for argument in self.program.arguments:
            if isinstance(argument.type, ArrayType):
                lines += self._array(next(buffers), arrays, argument.written)
                arrays += 1
            else:
                variable, own = next(scalars), MEMORY[argument.type]
                value = f"*static_cast<const {own}*>(scalars[{numbers}])"
                value += " != 0" if argument.type is ScalarType.BOOL else ""
                lines.append(f"{VALUE[variable.type]} {variable.name} = {VALUE[variable.type]}({value});")
                numbers += 1
        return lines

    def preamble(self) -> list[str]:
        """What stands after the arguments."""
        return []

    def _array(self, buffer: Buffer, number: int, written: bool) -> list[str]:
        type = f"{'' if written else 'const '}{MEMORY[buffer.type]}*"
        lines = [f"{type} const {buffer.name} = reinterpret_cast<{type}>(arrays[{number}][0]);"]
        axes = len(buffer.shape)
        for axis, (size, stride) in enumerate(zip(buffer.shape, buffer.strides, strict=True)):
            lines.append(f"const int64 {size} = arrays[{number}][{1 + axis}];")
            if isinstance(stride, str):
                lines.append(f"const int64 {stride} = arrays[{number}][{1 + axes + axis}];")
        return lines

    def local_array(self, buffer: Buffer) -> str:
        return f"{self.stored[buffer.type]} {buffer.name}[{int(buffer.shape[0]) * int(buffer.strides[0])}];"

    # ---- commands -----------------------------------------------------------------------------------------------

    def body(self, body: tuple[Command, ...], depth: int) -> str:
        return "".join(self.command(command, depth) for command in body)

    def command(self, command: Command, depth: int) -> str:
        pad = INDENT * depth
        match command:
            case Let(variable, value):
                return f"{pad}const {self.computed[variable.type]} {variable.name} = {self.value(value)};\n"
            case Assign(variable, value):
                return f"{pad}{variable.name} = {self.value(value)};\n"
            case Store(buffer, index, value):
                return f"{pad}{self.element(buffer, index)} = {self._memory(buffer, value)};\n"
            case Local():
                return ""
            case Accumulate():
                return self.accumulate(command, pad)
            case Index():
                return self._index(command, pad)
            case Require():
                return self._require(command, pad)
            case Range():
                return self.range_(command, depth)
            case Loop(body):
                return f"{pad}for (;;) {{\n{self.body(body, depth + 1)}{pad}}}\n"
            case If(condition, then, otherwise):
                text = f"{pad}if ({self.value(condition)}) {{\n{self.body(then, depth + 1)}{pad}}}"
                return text + (f" else {{\n{self.body(otherwise, depth + 1)}{pad}}}\n" if otherwise else "\n")
            case Break():
                return f"{pad}break;\n"
            case Continue():
                return f"{pad}continue;\n"
            case Return(values):
                return self.return_(values, pad)
        raise LoweringError(f"no C++ for {type(command).__name__}")

    def _memory(self, buffer: Buffer, value: Expression) -> str:
        """The value as it lies in the buffer."""
        return self.value(cast(value, buffer.type.compute))

    def accumulate(self, command: Accumulate, pad: str) -> str:
        buffer, value = command.buffer, command.value
        old = cast(Load(buffer, command.index), value.type)
        result = cast(Apply(command.op, (old, value)), buffer.type.compute)
        return f"{pad}{self.element(buffer, command.index)} = {self.value(result)};\n"

    def _index(self, command: Index, pad: str) -> str:
        name, value = command.variable.name, self.value(command.value)
        known = command.value.value >= 0 if isinstance(command.value, Constant) else id(command) in self.proven
        if known and (id(command) in self.proven or not self.boundscheck):
            return f"{pad}const int64 {name} = {value};\n"
        size = self.value(command.size)
        if not self.boundscheck:
            return f"{pad}int64 {name} = {value};\n{pad}{name} += {name} < 0 ? {size} : int64(0);\n"
        words = f"{command.array}, {command.axis}, {name}, {size}"
        fail = self.fail(Failure.INDEX, command.where.line, command.where.column, words)
        return f"{pad}int64 {name} = {value};\n{pad}if (py::outside({name}, {size})) {fail}\n"

    def _require(self, command: Require, pad: str) -> str:
        words = f"{command.array}, 0, {self.value(command.index)}, {self.value(command.size)}"
        fail = self.fail(command.failure, command.where.line, command.where.column, words)
        return f"{pad}if (!({self.value(command.condition)})) {fail}\n"

    def fail(self, failure: Failure, line: int, column: int, words: str) -> str:
        return f"{self.leave}py::fail(error, {failure.value}, {line}, {column}, {words});"

    def return_(self, values: tuple[Expression, ...], pad: str) -> str:
        text = ""
        for number, value in enumerate(values):
            place = f"static_cast<int64*>(results) + {number}"
            text += f"{pad}*reinterpret_cast<{MEMORY[value.type]}*>({place}) = {self.value(value)};\n"
        return f"{text}{pad}return 0;\n"

    # ---- loops --------------------------------------------------------------------------------------------------

    def range_(self, loop: Range, depth: int) -> str:
        """The loop; where its indices can be shown to lie within their axes, a version without checks before it."""
        if self.careful:
            return self.loop(loop, depth)
        proof = prove(loop, self.proven)
        before = self.proven
        self.proven = before | proof.indices
        fast = self.loop(loop, depth + bool(proof.condition))
        self.proven = before
        if not proof.condition:
            return fast
        self.careful = True
        safe = self.loop(loop, depth + 1)
        self.careful = False
        pad = INDENT * depth
        return f"{pad}if ({proof.condition}) {{\n{fast}{pad}}} else {{\n{safe}{pad}}}\n"

    def loop(self, loop: Range, depth: int) -> str:
        """The loop, which may be run in another way than one iteration after the other."""
        return self.plain_loop(loop, depth)

    def plain_loop(self, loop: Range, depth: int) -> str:
        pad, i = INDENT * depth, loop.index.name
        compare, step = ("<", f"{i} += {loop.step}") if loop.step > 0 else (">", f"{i} -= {-loop.step}")
        step = f"++{i}" if loop.step == 1 else step
        head = f"for (int64 {i} = {self.value(loop.start)}; {i} {compare} {self.value(loop.stop)}; {step})"
        return f"{pad}{head} {{\n{self.body(loop.body, depth + 1)}{pad}}}\n"
