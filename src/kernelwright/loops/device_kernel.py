"""Text of one step of a Program as kernels of a device: see device_text.py, which takes programs apart."""

import struct
from collections.abc import Sequence

from kernelwright.errors import LoweringError
from kernelwright.loops.analysis import LoopPlan, analyse
from kernelwright.loops.bounds import prove
from kernelwright.loops.commands_cpp import INDENT, ProgramPrinter
from kernelwright.loops.cpp_expressions import ATOM
from kernelwright.loops.dialect import GROUP, LARGEST_FLOAT32, STAGE, Dialect
from kernelwright.loops.expressions import Apply, Buffer, Cast, Constant, Expression, Op, Variable
from kernelwright.loops.program import (
    Accumulate,
    Argument,
    ArrayType,
    Command,
    Failure,
    Loop,
    Program,
    Range,
    commands,
)
from kernelwright.loops.python.promotion import cast, machine
from kernelwright.loops.types import ScalarType

_UNROLLED = 4
"""Turns of an innermost loop at once, where few threads fit a processor: each has to have several loads on the way."""


class DeviceKernel(ProgramPrinter):
    """Prints the kernels of one step."""

    def __init__(self, program: Program, dialect: Dialect, boundscheck: bool) -> None:
        super().__init__(program, boundscheck)
        self.dialect = dialect
        self.leave = "return (void)"
        self.atomic: frozenset[str] = frozenset()
        self.stored = {**self.stored, ScalarType.FLOAT64: dialect.double}
        self.computed = {**self.computed, ScalarType.FLOAT64: dialect.double}
        self.types = {one.name: one.type for one in (*program.variables, *program.scalars)}
        self.teams = self.unrolled = False
        self.fails = False
        """Whether what was printed may tell of an error."""
        self.items = f"sizes[{sum(2 * len(buffer.shape) + 1 for buffer in program.buffers)}]"

    def alone(self, name: str) -> str:
        """All of the program for each of the batch."""
        body = f"{INDENT}if (kw_thread >= {self.items}) return;\n{self.body(self.program.body, 1)}"
        return self._text(name, self._locals(), body, batched=True)

    def staged(self, name: str, common: frozenset[str]) -> str:
        """The same with each item's arrays in the group's memory, where its threads find them side by side."""
        lines, back = ["char* kw_room = kw_shared;", f"const int64 kw_items = {self.items};"], []
        parameters, given, inside, at = [], [], [], 0
        own = frozenset(one.name for argument, one in self.arrays() if argument.name not in common or argument.written)
        for argument, buffer in self.arrays():
            step, all = f"sizes[{at + 2 * len(buffer.shape)}]", f"kw_all_{buffer.name}"
            at += 2 * len(buffer.shape) + 1
            if buffer.name not in own:
                continue
            type = f"{'' if argument.written else 'const '}{self.stored[buffer.type]}"
            lines.append(f"{type}* const {all} = py::stage<{STAGE}>(kw_{buffer.name}, {step}, kw_items, kw_room);")
            if argument.written:
                back.append(f"{INDENT}py::bring_back<{STAGE}>({all}, kw_{buffer.name}, {step}, kw_items);\n")
            # As a parameter it can be said of a pointer that no other one reaches what it points to.
            parameters.append(f"{type}* __restrict__ {buffer.name}own")
            given.append(f"{all} + threadIdx.x")
            inside.append(f"const py::Own<{type}, {STAGE}> {buffer.name} = {{{buffer.name}own}};")
        self.unrolled = True
        text = "".join(f"{INDENT * 2}{line}\n" for line in (*inside, *self._locals())) + self.body(self.program.body, 2)
        self.unrolled = False
        body = f"{INDENT}__syncthreads();\n"
        body += f"{INDENT}const auto kw_item = [&]({', '.join(parameters)}) {{\n{text}{INDENT}}};\n"
        body += f"{INDENT}if (kw_thread < kw_items) kw_item({', '.join(given)});\n"
        body += f"{INDENT}__syncthreads();\n{''.join(back)}"
        return self._text(name, lines, body, batched=True, own=own, apart=True)

    def grouped(
        self,
        name: str,
        common: frozenset[str],
        parts: Sequence[tuple[tuple[Command, ...], tuple[Range, ...], LoopPlan]],
    ) -> str:
        """A group for each item: its threads fetch the item's arrays, take the turns of each loop, and bring back."""
        lines, back, at = ["char* kw_room = kw_shared;", "const int64 kw_item = blockIdx.x;"], [], 0
        own = frozenset(one.name for argument, one in self.arrays() if argument.name not in common or argument.written)
        for argument, buffer in self.arrays():
            step = f"sizes[{at + 2 * len(buffer.shape)}]"
            at += 2 * len(buffer.shape) + 1
            if buffer.name in own:
                type = f"{'' if argument.written else 'const '}{self.stored[buffer.type]}*"
                lines.append(f"{type} const {buffer.name} = py::fetch(kw_{buffer.name}, {step}, kw_item, kw_room);")
                if argument.written:
                    words = f"{buffer.name}, kw_{buffer.name}, {step}, kw_item"
                    back.append(f"{INDENT}py::put_back({words});\n")
        text, sync = f"{INDENT}__syncthreads();\n", f"{INDENT}__syncthreads();\n"
        for before, nest, plan in parts:
            self.atomic = frozenset(buffer.name for buffer, _ in plan.scatters)
            counted, total = self._counted(before, nest, 2)
            inside = "".join(f"{INDENT * 3}{line}\n" for line in self._privates(plan)) + self._turn(nest, 3)
            turns = f"for (int64 kw_turn = threadIdx.x; kw_turn < {total}; kw_turn += blockDim.x) kw_one(kw_turn);"
            text += (
                f"{INDENT}{{\n{counted}{INDENT * 2}const auto kw_one = [&](int64 kw_turn) {{\n{inside}{INDENT * 2}}};\n"
            )
            text += f"{INDENT * 2}{turns}\n{INDENT}}}\n{sync}"
        self.atomic = frozenset()
        return self._text(name, lines, text + "".join(back), batched=True, own=own, apart=True)

    def shared(
        self, name: str, before: tuple[Command, ...], nest: tuple[Range, ...], plan: LoopPlan, *, team: bool
    ) -> str:
        """A thread for each turn of the loops, or a group."""
        self.atomic = frozenset(buffer.name for buffer, _ in plan.scatters)
        self.teams = team
        text, total = self._counted(before, nest)
        lines = [] if team else self._privates(plan)
        turn = "kw_thread"
        if team:
            turn = f"kw_thread / {GROUP}"
            lines += [f"const uint32 kw_lane = {self.dialect.lane};", *self._privates(plan)]
            lines += [f"{self.dialect.shared}{type} kw_sums_{type}[{GROUP}];" for type in self._summed(nest)]
        text += f"{INDENT}const int64 kw_turn = {turn};\n{INDENT}if (kw_turn >= {total}) return;\n"
        return self._text(name, lines, text + self._turn(nest, 1), batched=False)

    def binned(
        self, name: str, before: tuple[Command, ...], nest: tuple[Range, ...], plan: LoopPlan, bins: Buffer
    ) -> str:
        """Turns in strides, which add into bins of their group; what a group's bins hold is added at the end."""
        text, total = self._counted(before, nest)
        size = " * ".join(str(axis) for axis in bins.shape)
        lines = [f"const auto {bins.name} = py::bins(kw_{bins.name}, {size}, kw_shared);", "__syncthreads();"]
        inside = "".join(f"{INDENT * 2}{line}\n" for line in self._privates(plan)) + self._turn(nest, 2)
        text += f"{INDENT}const auto kw_one = [&](int64 kw_turn) {{\n{inside}{INDENT}}};\n"
        step = "int64(gridDim.x) * blockDim.x"
        text += f"{INDENT}for (int64 kw_turn = kw_thread; kw_turn < {total}; kw_turn += {step}) kw_one(kw_turn);\n"
        text += f"{INDENT}__syncthreads();\n{INDENT}py::add_up({bins.name}, kw_{bins.name}, {size});\n"
        return self._text(name, lines, text, batched=False, own=frozenset((bins.name,)))

    def _counted(self, before: tuple[Command, ...], nest: tuple[Range, ...], depth: int = 1) -> tuple[str, str]:
        """What is computed first, and how many turns there are."""
        text = self.body(before, depth)
        for number, loop in enumerate(nest):
            count = f"py::turns({self.value(loop.start)}, {self.value(loop.stop)}, {loop.step})"
            text += f"{INDENT * depth}const int64 kw_count{number} = {count};\n"
        return text, " * ".join(f"kw_count{number}" for number in range(len(nest)))

    def _turn(self, nest: tuple[Range, ...], depth: int) -> str:
        """The turn number kw_turn."""
        before, turn, text, pad = self.proven, "kw_turn", "", INDENT * depth
        for number, loop in reversed(list(enumerate(nest))):
            self.proven |= prove(loop, self.proven).always
            own = turn if number == 0 else f"{turn} % kw_count{number}"
            index = f"{self.value(loop.start)} + ({own}) * ({loop.step})"
            text += f"{pad}const int64 {loop.index.name} = {index};\n"
            turn = f"{turn} / kw_count{number}"
        # The body is a loop of one turn, so that a `continue` in it ends the turn.
        text += f"{pad}for (bool kw_once = true; kw_once; kw_once = false) {{\n"
        text += f"{self._team_body(nest[-1].body, depth + 1)}{pad}}}\n"
        self.proven = before
        return text

    def _team_body(self, body: tuple[Command, ...], depth: int) -> str:
        """The body; where threads work together, one of them does what comes after that."""
        places = [n for n, one in enumerate(body) if self.teams and isinstance(one, Range) and one.cooperative]
        if not places:
            return self.body(body, depth)
        together, pad = places[-1] + 1, INDENT * depth
        last = f"{pad}if (kw_lane == 0) {{\n{self.body(body[together:], depth + 1)}{pad}}}\n"
        return self.body(body[:together], depth) + last

    def _summed(self, nest: tuple[Range, ...]) -> list[str]:
        """The types of the sums that groups make."""
        loops = [one for one in nest[-1].body if isinstance(one, Range) and one.cooperative]
        return sorted({self.computed[self.types[name]] for loop in loops for name, _ in self._reductions(loop)})

    def _reductions(self, loop: Range) -> tuple[tuple[str, Op], ...]:
        return analyse(self.program).of(loop).reductions

    def _together(self, loop: Range, depth: int) -> str:
        """A loop whose turns the group's threads share. What a variable held before counts once."""
        pad, i, sums = INDENT * depth, loop.index.name, self._reductions(loop)
        text = "".join(f"{pad}if (kw_lane != 0) {name} = {self._zero(self.types[name])};\n" for name, _ in sums)
        head = f"for (int64 {i} = {self.value(loop.start)} + kw_lane; {i} < {self.value(loop.stop)}; {i} += {GROUP})"
        text += f"{pad}{head} {{\n{self.body(loop.body, depth + 1)}{pad}}}\n"
        for name, op in sums:
            if op is not Op.ADD or loop.step != 1:
                raise LoweringError(f"a group adds up, in steps of 1; {name} is another kind of result")
            text += f"{pad}{name} = py::group_sum(kw_sums_{self.computed[self.types[name]]}, kw_lane, {name});\n"
        return text

    def _privates(self, plan: LoopPlan) -> list[str]:
        lines = [f"{self.computed[self.types[one]]} {one} = {self._zero(self.types[one])};" for one in plan.private]
        return lines + [self.local_array(buffer) for buffer in plan.locals]

    def _locals(self) -> list[str]:
        lines = [f"{self.computed[one.type]} {one.name} = {self._zero(one.type)};" for one in self.program.variables]
        return lines + [self.local_array(buffer) for buffer in self.program.locals]

    def _zero(self, type: ScalarType) -> str:
        return f"{self.dialect.double}{{0, 0}}" if self._paired(type) else "0"

    def _paired(self, type: ScalarType) -> bool:
        return type is ScalarType.FLOAT64 and self.dialect.pairs

    def _text(
        self,
        name: str,
        lines: list[str],
        body: str,
        batched: bool,
        own: frozenset[str] = frozenset(),
        apart: bool = False,
    ) -> str:
        """`own`: the arrays that `lines` declare, in the group's memory. `apart`: the others are only read, and what is
        written lies elsewhere."""
        parameters, unpacked = self._parameters(batched, own, apart)
        device, number = self.dialect.device, self.dialect.number
        parameters += [f"{device}int32* error", f"{device}int64* results", *self.dialect.thread]
        head = f"// {self.program.name}\n{self.dialect.head}{name}({', '.join(parameters)}) {{\n"
        first = [f"const int64 kw_thread = {number};", *unpacked, *lines]
        if own:
            first.insert(0, f"extern {self.dialect.shared}__align__(16) char kw_shared[];")
        return head + "".join(f"{INDENT}{line}\n" for line in first) + body + "}\n"

    def arrays(self) -> list[tuple[Argument, Buffer]]:
        """The array arguments with what the program calls them."""
        given = [one for one in self.program.arguments if isinstance(one.type, ArrayType)]
        return list(zip(given, self.program.buffers, strict=True))

    def _parameters(self, batched: bool, own: frozenset[str], apart: bool) -> tuple[list[str], list[str]]:
        device, program = self.dialect.device, self.program
        arrays, scalars, lines, at = [], [], [], 0
        buffers, variables_ = iter(program.buffers), iter(program.scalars)
        for argument in program.arguments:
            if isinstance(argument.type, ArrayType):
                buffer = next(buffers)
                type = f"{device}{'' if argument.written else 'const '}{self.stored[buffer.type]}*"
                restrict = " __restrict__" if apart and buffer.name not in own else ""
                arrays.append(f"{type}{restrict} kw_{buffer.name}")
                axes = len(buffer.shape)
                moved = f" + kw_thread * sizes[{at + 2 * axes}]" if batched and not apart else ""
                if buffer.name not in own:
                    lines.append(f"{type}{restrict} const {buffer.name} = kw_{buffer.name}{moved};")
                for axis, (size, stride) in enumerate(zip(buffer.shape, buffer.strides, strict=True)):
                    lines.append(f"const int64 {size} = sizes[{at + axis}];")
                    if isinstance(stride, str):
                        lines.append(f"const int64 {stride} = sizes[{at + axes + axis}];")
                at += 2 * axes + 1
            else:
                variable = next(variables_)
                scalars.append(self._scalar(argument, variable))
                type = self.computed[variable.type]
                lines.append(f"{type} {variable.name} = {type}(kw_{variable.name});")
        return [*arrays, f"{device}const int64* sizes", *scalars], lines

    def _scalar(self, argument: Argument, variable: Variable) -> str:
        assert isinstance(argument.type, ScalarType)
        return self.dialect.scalar.format(type=self.stored[argument.type], name=f"kw_{variable.name}")

    # ---- what is said in another way ----------------------------------------------------------------------------

    def fail(self, failure: Failure, line: int, column: int, words: str) -> str:
        self.fails = True
        return super().fail(failure, line, column, words)

    def plain_loop(self, loop: Range, depth: int) -> str:
        innermost = not any(isinstance(one, Range | Loop) for one in commands(loop.body))
        unrolled = f"{INDENT * depth}#pragma unroll {_UNROLLED}\n" if self.unrolled and innermost else ""
        return unrolled + super().plain_loop(loop, depth)

    def range_(self, loop: Range, depth: int) -> str:
        before = self.proven
        self.proven |= prove(loop, before).always
        text = self._together(loop, depth) if self.teams and loop.cooperative else self.plain_loop(loop, depth)
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
            text += f"{pad}*({device}{self.stored[value.type]}*)({place}) = {self.value(value)};\n"
        return f"{text}{pad}return;\n"

    def expression(self, expression: Expression) -> tuple[str, int]:
        match expression:
            case Constant(value, type) if self._paired(type):
                parts = (self.value(Constant(part, ScalarType.FLOAT32)) for part in split(value))
                return f"{self.dialect.double}{{{', '.join(parts)}}}", ATOM
            case Cast(to, operand) if self._paired(operand.type) and not to.integer:
                if to is ScalarType.BOOL:
                    return f"({self.value(operand)} != {self._zero(operand.type)})", ATOM
                return f"{self.bracketed(operand, ATOM)}.hi", ATOM
            case Cast(to, operand) if self._paired(to):
                return f"py::pair({self.computed[machine(operand.type)]}({self.value(operand)}))", ATOM
        special = self.dialect.special(expression)
        return super().expression(expression) if special is None else (special, ATOM)

    def apply(self, op: Op, operands: tuple[Expression, ...]) -> tuple[str, int]:
        floating = operands[0].type.floating
        values = ", ".join(f"{self.computed[one.type]}({self.value(one)})" for one in operands)
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


def split(value: float) -> tuple[float, float]:
    """The number as two of float32, of which the first is it, rounded; the second is 0 where that is not finite."""
    if abs(value) > LARGEST_FLOAT32 or value != value:
        return value, 0.0
    high = _rounded(value)
    return high, _rounded(value - high)


def _rounded(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]
