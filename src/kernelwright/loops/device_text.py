"""Text of a Program for a GPU: each free loop of its body is a kernel over a grid, or all of it one thread's work.

A kernel takes the arrays, then `sizes` (of each array shape..., strides..., and how far apart the arrays of a batch
are, all in elements), the scalars, the words of a KwError, and `results` of 8 bytes for each scalar returned.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.loops.analysis import LoopPlan, analyse
from kernelwright.loops.bounds import assigned, prove
from kernelwright.loops.commands_cpp import INDENT, ProgramPrinter
from kernelwright.loops.cpp_expressions import ATOM, MEMORY, VALUE
from kernelwright.loops.expressions import Apply, Buffer, Constant, Expression, Op, Variable, variables, walk
from kernelwright.loops.nest import Let
from kernelwright.loops.program import (
    Accumulate,
    Argument,
    ArrayType,
    Command,
    Index,
    Program,
    Range,
    Require,
    Return,
    commands,
    expressions,
    loads,
)
from kernelwright.loops.python.promotion import cast
from kernelwright.loops.python.source import UnsupportedError
from kernelwright.loops.types import ScalarType


@dataclass(frozen=True)
class Dialect:
    """What a language calls things."""

    name: str
    """As its users call the device."""
    templates: tuple[str, ...]
    head: str
    """Of a kernel, up to its name."""
    device: str
    """The address space of arrays, with a space behind it."""
    scalar: str
    """A scalar parameter, from {type} and {name}."""
    thread: str
    """The parameter that is the thread's number; "" where `number` needs none."""
    number: str
    atomics: frozenset[ScalarType]
    """Types whose elements several threads can add to."""
    refused: frozenset[ScalarType]
    missing: frozenset[Op]
    infinity: str
    nan: str


@dataclass(frozen=True)
class Launch:
    """A kernel to run over a grid of `turns` threads; without loops over one for each of the batch."""

    kernel: str
    loops: tuple[Range, ...]


@dataclass(frozen=True)
class DeviceProgram:
    """Text, and the kernels in it in the order in which they run."""

    text: str
    launches: tuple[Launch, ...]


@cache
def device_template(dialect: Dialect) -> str:
    """What all programs of a file share."""
    folder = Path(__file__).parent / "templates"
    return "\n".join((folder / name).read_text() for name in dialect.templates)


def print_for(program: Program, dialect: Dialect, boundscheck: bool, batched: bool) -> DeviceProgram:
    """The kernels, to stand after `device_template(dialect)`. Raises UnsupportedError for what the device lacks."""
    _check(program, dialect)
    steps = None if batched else _steps(program, dialect)
    if steps is None:
        name = program.symbol
        return DeviceProgram(_Kernel(program, dialect, boundscheck).alone(name), (Launch(name, ()),))
    texts, launches = [], []
    for number, (before, loop, plan) in enumerate(steps):
        name = f"{program.symbol}_{number}"
        nest = _nest(loop, plan, program)
        texts.append(_Kernel(program, dialect, boundscheck).shared(name, before, nest, plan))
        launches.append(Launch(name, nest))
    return DeviceProgram("\n".join(texts), tuple(launches))


def _check(program: Program, dialect: Dialect) -> None:
    where = f"{program.file}:{program.line}: "
    typed = [(b.name, b.type) for b in (*program.buffers, *program.locals)]
    typed += [(v.name, v.type) for v in (*program.scalars, *program.variables)]
    for name, type in typed:
        if type in dialect.refused:
            raise UnsupportedError(
                f"{where}{dialect.name} has no {type.value}, which {name.rstrip('_')} is; "
                "supported: float32 arrays with precision='float32', or target='cpu'"
            )
    for command in commands(program.body):
        for expression in expressions(command):
            for node in walk(expression):
                if node.type in dialect.refused:
                    raise UnsupportedError(
                        f"{where}{dialect.name} has no {node.type.value}, in which {program.name} computes; "
                        "supported: precision='float32', or target='cpu'"
                    )
                if isinstance(node, Apply) and node.op in dialect.missing:
                    raise UnsupportedError(
                        f"{where}{dialect.name} has no function {node.op.value}; supported: target='cpu'"
                    )


def _steps(program: Program, dialect: Dialect) -> list[tuple[tuple[Command, ...], Range, LoopPlan]] | None:
    """The loops that become kernels, each with what is computed before it; None where that is not all there is."""
    plans = analyse(program)
    written = {argument.name for argument in program.arguments if argument.written}
    before: list[Command] = []
    steps = []
    for command in program.body:
        match command:
            case Let() | Index() | Require():
                if any(load.buffer.name.removesuffix("_") in written for load in loads(command)):
                    return None
                before.append(command)
            case Range():
                plan = plans.of(command)
                atomic = all(op is Op.ADD and b.type in dialect.atomics for b, op in plan.scatters)
                shared = any(buffer in program.locals for buffer, _ in plan.scatters)
                if not plan.free or plan.reductions or not atomic or shared or _uses_locals(command, plan, program):
                    return None
                steps.append((tuple(before), command, plan))
            case Return(()):
                break
            case _:
                return None
    return steps or None


def _uses_locals(loop: Range, plan: LoopPlan, program: Program) -> bool:
    """Whether the loop uses an array on the stack that is not its own."""
    own = {buffer.name for buffer in plan.locals}
    others = {buffer.name for buffer in program.locals} - own
    for command in commands(loop.body):
        buffer = getattr(command, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.name in others:
            return True
        if any(load.buffer.name in others for load in loads(command)):
            return True
    return False


def _nest(loop: Range, plan: LoopPlan, program: Program) -> tuple[Range, ...]:
    """The loop, and the one that is all of its body if that is free too and always as long."""
    if len(loop.body) == 1 and isinstance(loop.body[0], Range):
        inner = loop.body[0]
        inside = analyse(program).of(inner)
        bounds = variables(inner.start) | variables(inner.stop)
        same = set(inside.scatters) <= set(plan.scatters)
        if inside.free and same and not inside.reductions and not bounds & assigned((loop,)):
            return loop, inner
    return (loop,)


class _Kernel(ProgramPrinter):
    """Prints one kernel."""

    def __init__(self, program: Program, dialect: Dialect, boundscheck: bool) -> None:
        super().__init__(program, boundscheck)
        self.dialect = dialect
        self.leave = "return (void)"
        self.atomic: frozenset[str] = frozenset()
        self.types = {one.name: one.type for one in (*program.variables, *program.scalars)}

    def alone(self, name: str) -> str:
        """All of the program for each of the batch."""
        program = self.program
        lines = [f"{VALUE[one.type]} {one.name} = 0;" for one in program.variables]
        lines += [self.local_array(buffer) for buffer in program.locals]
        return self._text(name, lines, self.body(program.body, 1), batched=True)

    def shared(self, name: str, before: tuple[Command, ...], nest: tuple[Range, ...], plan: LoopPlan) -> str:
        """A thread for each turn of the loops."""
        self.atomic = frozenset(buffer.name for buffer, _ in plan.scatters)
        text = self.body(before, 1)
        for number, loop in enumerate(nest):
            count = f"py::turns({self.value(loop.start)}, {self.value(loop.stop)}, {loop.step})"
            text += f"{INDENT}const int64 kw_count{number} = {count};\n"
        total = " * ".join(f"kw_count{number}" for number in range(len(nest)))
        text += f"{INDENT}if (kw_thread >= {total}) return;\n"
        turn = "kw_thread"
        for number, loop in reversed(list(enumerate(nest))):
            self.proven |= prove(loop, self.proven).always
            own = turn if number == 0 else f"{turn} % kw_count{number}"
            index = f"{self.value(loop.start)} + ({own}) * ({loop.step})"
            text += f"{INDENT}const int64 {loop.index.name} = {index};\n"
            turn = f"{turn} / kw_count{number}"
        lines = [f"{VALUE[self.types[one]]} {one} = 0;" for one in plan.private]
        lines += [self.local_array(buffer) for buffer in plan.locals]
        # The body is a loop of one turn, so that a `continue` in it ends the thread.
        body = (
            f"{INDENT}for (bool kw_once = true; kw_once; kw_once = false) {{\n{self.body(nest[-1].body, 2)}{INDENT}}}\n"
        )
        return self._text(name, lines, text + body, batched=False)

    def _text(self, name: str, lines: list[str], body: str, batched: bool) -> str:
        parameters, unpacked = self._parameters(batched)
        device, number = self.dialect.device, self.dialect.number
        parameters += [f"{device}int32* error", f"{device}int64* results"]
        parameters += [self.dialect.thread] if self.dialect.thread else []
        head = f"// {self.program.name}\n{self.dialect.head}{name}({', '.join(parameters)}) {{\n"
        first = [f"const int64 kw_thread = {number};", *unpacked, *lines]
        return head + "".join(f"{INDENT}{line}\n" for line in first) + body + "}\n"

    def _parameters(self, batched: bool) -> tuple[list[str], list[str]]:
        device, program = self.dialect.device, self.program
        arrays, scalars, lines, at = [], [], [], 0
        buffers, variables_ = iter(program.buffers), iter(program.scalars)
        for argument in program.arguments:
            if isinstance(argument.type, ArrayType):
                buffer = next(buffers)
                type = f"{device}{'' if argument.written else 'const '}{MEMORY[buffer.type]}*"
                arrays.append(f"{type} kw_{buffer.name}")
                axes = len(buffer.shape)
                moved = f" + kw_thread * sizes[{at + 2 * axes}]" if batched else ""
                lines.append(f"{type} const {buffer.name} = kw_{buffer.name}{moved};")
                for axis, (size, stride) in enumerate(zip(buffer.shape, buffer.strides, strict=True)):
                    lines.append(f"const int64 {size} = sizes[{at + axis}];")
                    if isinstance(stride, str):
                        lines.append(f"const int64 {stride} = sizes[{at + axes + axis}];")
                at += 2 * axes + 1
            else:
                variable = next(variables_)
                scalars.append(self._scalar(argument, variable))
                lines.append(f"{VALUE[variable.type]} {variable.name} = {VALUE[variable.type]}(kw_{variable.name});")
        return [*arrays, f"{device}const int64* sizes", *scalars], lines

    def _scalar(self, argument: Argument, variable: Variable) -> str:
        assert isinstance(argument.type, ScalarType)
        return self.dialect.scalar.format(type=MEMORY[argument.type], name=f"kw_{variable.name}")

    # ---- what is said in another way ----------------------------------------------------------------------------

    def range_(self, loop: Range, depth: int) -> str:
        before = self.proven
        self.proven |= prove(loop, before).always
        text = self.plain_loop(loop, depth)
        self.proven = before
        return text

    def accumulate(self, command: Accumulate, pad: str) -> str:
        if command.buffer.name not in self.atomic:
            return super().accumulate(command, pad)
        value = Apply(Op.NEG, (command.value,)) if command.op is Op.SUB else command.value
        value = cast(value, command.buffer.type)
        return f"{pad}py::accumulate(&{self.element(command.buffer, command.index)}, {self.value(value)});\n"

    def return_(self, values: tuple[Expression, ...], pad: str) -> str:
        device, text = self.dialect.device, ""
        for number, value in enumerate(values):
            place = f"results + kw_thread * {len(values)} + {number}"
            text += f"{pad}*({device}{MEMORY[value.type]}*)({place}) = {self.value(value)};\n"
        return f"{text}{pad}return;\n"

    def expression(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Constant(value, type) if type.floating and value != value:
                return self.dialect.nan, ATOM
            case Constant(value, type) if type.floating and value in (float("inf"), float("-inf")):
                return (self.dialect.infinity if value > 0 else f"(-{self.dialect.infinity})"), ATOM
        return super().expression(expression)

    def apply(self, op: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
        floating = operands[0].type.floating
        values = ", ".join(f"{VALUE[one.type]}({self.value(one)})" for one in operands)
        if op in _PYTHON:
            return f"py::{op.value}({values})", ATOM
        if op in (Op.ISNAN, Op.ISINF, Op.ISFINITE) or (floating and op in _MATH):
            return f"math::{'magnitude' if op is Op.ABS else op.value}({values})", ATOM
        return super().apply(op, operands)


_PYTHON = (Op.MAXIMUM, Op.MINIMUM, Op.SIGN, Op.HYPOT, Op.LOG1P, Op.EXPM1, Op.CBRT)
_MATH = (
    *(Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH, Op.ASINH, Op.ACOSH, Op.ATANH),
    *(Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.LOG10, Op.SQRT, Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.ABS),
    *(Op.POW, Op.ATAN2, Op.FMOD, Op.COPYSIGN, Op.ERF, Op.ERFC, Op.GAMMA, Op.LGAMMA),
)
