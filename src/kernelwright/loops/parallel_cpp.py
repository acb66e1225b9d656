"""C++ text of a program whose free loops run on several threads.

The outermost free loop of a nest is shared out. Its body becomes a lambda that copies what it reads into constants of
its own, so that no store can seem to change them. Variables that add up, and small arrays whose elements do, are
private to parts of the range and added together in the order of the parts afterwards: no atomics, and the same result
each time.
"""

from kernelwright.errors import LoweringError
from kernelwright.loops.analysis import LoopPlan, analyse
from kernelwright.loops.bounds import assigned
from kernelwright.loops.commands_cpp import INDENT, ProgramPrinter
from kernelwright.loops.cpp_expressions import MEMORY, VALUE
from kernelwright.loops.expressions import Buffer, Constant, Load, Op, cost, variables, walk
from kernelwright.loops.nest import Store
from kernelwright.loops.program import (
    Accumulate,
    ArrayType,
    Command,
    Loop,
    Program,
    Range,
    bodies,
    commands,
    expressions,
)
from kernelwright.loops.types import ScalarType

WORTH_SHARING = 20_000
"""Units of work (see `cost`) that are worth a thread: about 10 us."""
PARTS = 32
"""Of a range whose variables add up. Their number depends on the range alone, so the sums do too."""
_UNKNOWN_TURNS = 16


class ParallelPrinter(ProgramPrinter):
    """Prints one program."""

    def __init__(self, program: Program, boundscheck: bool) -> None:
        super().__init__(program, boundscheck)
        self.plans = analyse(program)
        self.shared = False
        """Whether this is inside a loop that is shared out."""
        self.types = {one.name: one.type for one in (*program.variables, *program.scalars)}

    def preamble(self) -> list[str]:
        """Whether the arrays that are written overlap no others."""
        arrays = [one for one in self.program.arguments if isinstance(one.type, ArrayType)]
        pairs = [
            f"py::apart(arrays[{a}], {_axes(one.type)}, arrays[{b}], {_axes(other.type)})"
            for a, one in enumerate(arrays)
            for b, other in enumerate(arrays)
            if a != b and one.written and (a < b or not other.written)
        ]
        return [f"const bool kw_apart = {' && '.join(pairs) or 'true'};", "(void)kw_apart;"]

    def loop(self, loop: Range, depth: int) -> str:
        plan = self.plans.of(loop)
        if self.shared or not plan.free or _small(loop):
            return self.plain_loop(loop, depth)
        if any(not self._whole(buffer) for buffer, _ in plan.scatters):
            return self.plain_loop(loop, depth)
        if not plan.scatters and not plan.reductions:
            return self._shared(loop, plan, depth)
        return self._parts(loop, plan, depth)

    def _whole(self, buffer: Buffer) -> bool:
        """Whether the buffer's elements lie side by side."""
        return buffer.strides[-1:] == (1,)

    # ---- independent iterations ---------------------------------------------------------------------------------

    def _shared(self, loop: Range, plan: LoopPlan, depth: int) -> str:
        pad = INDENT * depth
        body = self._iterations(loop, plan, depth + 2, "kw_begin", "kw_end")
        names = self._names(loop, plan)
        return (
            f"{pad}{{\n{pad}{INDENT}const int64 kw_count = {self._count(loop)};\n"
            f"{pad}{INDENT}const int64 kw_grain = kw_apart ? {self._grain(loop)} : kw_count;\n"
            f"{pad}{INDENT}parallel_for(kw_count, kw_grain, {_captures(names)}(int64 kw_begin, int64 kw_end) {{\n"
            f"{_constants(names, depth + 2)}{body}{pad}{INDENT}}});\n"
            f"{pad}{INDENT}if (error->set) {self.leave}1;\n{pad}}}\n"
        )

    def _iterations(self, loop: Range, plan: LoopPlan, depth: int, first: str, last: str) -> str:
        """The iterations first to last - 1, with the variables that each has for itself."""
        pad = INDENT * depth
        text = "".join(f"{pad}{VALUE[self.types[name]]} {name} = 0;\n" for name in plan.private)
        text += "".join(f"{pad}{self.local_array(buffer)}\n" for buffer in plan.locals)
        index = f"{self.value(loop.start)} + kw_turn * ({loop.step})"
        text += f"{pad}for (int64 kw_turn = {first}; kw_turn < {last}; ++kw_turn) {{\n"
        text += f"{pad}{INDENT}const int64 {loop.index.name} = {index};\n"
        leave, self.leave, self.shared = self.leave, "return (void)", True
        text += self.body(loop.body, depth + 1)
        self.leave, self.shared = leave, False
        return f"{text}{pad}}}\n"

    # ---- sums ---------------------------------------------------------------------------------------------------

    def _parts(self, loop: Range, plan: LoopPlan, depth: int) -> str:
        """The range in parts, with sums for each, which are added together in order."""
        pad, inner = INDENT * (depth + 1), INDENT * (depth + 2)
        deep = INDENT * (depth + 3)
        names = self._names(loop, plan)
        text = f"{INDENT * depth}{{\n{pad}const int64 kw_count = {self._count(loop)};\n"
        text += f"{pad}const int64 kw_parts = py::parts(kw_count, kw_apart ? {self._grain(loop)} : kw_count, "
        text += f"{'kernelwright::thread_count()' if plan.scatters else PARTS});\n"
        made, start, end, merge = "", "", "", ""
        captured = list(names)
        for name, op in plan.reductions:
            type = self.types[name]
            made += f"{pad}{VALUE[type]} {name}parts[{PARTS}];\n"
            captured.append(f"{name}parts")
            start += f"{deep}{VALUE[type]} {name} = {_identity(op, type)};\n"
            end += f"{deep}{name}parts[kw_part] = {name};\n"
            merge += f"{inner}{name} = {self._joined(op, type, name, f'{name}parts[kw_part]')};\n"
        for buffer, op in plan.scatters:
            name, type = buffer.name, buffer.type
            count = " * ".join(str(size) for size in buffer.shape)
            made += f"{pad}const int64 {name}count = {count};\n"
            room = f"kw_parts > 1 && 4 * {name}count <= kw_count ? kw_parts * {name}count : 0"
            made += f"{pad}py::Scratch<{MEMORY[type]}> {name}scratch({room});\n"
            captured += [f"{name}count"]
            start += f"{deep}{MEMORY[type]}* const {name} = {name}all + kw_part * {name}count;\n"
            start += f"{deep}for (int64 e = 0; e < {name}count; ++e) {name}[e] = {_identity(op, type)};\n"
            joined = self._joined(op, type, f"{name}[e]", f"{name}scratch.data[kw_part * {name}count + e]")
            merge += f"{inner}for (int64 e = 0; e < {name}count; ++e) {name}[e] = {joined};\n"
        text += made
        parallel = (
            f"{pad}parallel_for(kw_parts, 1, {_captures(captured, plan)}(int64 kw_begin, int64 kw_end) {{\n"
            f"{_constants(captured, depth + 2, plan)}"
            f"{inner}for (int64 kw_part = kw_begin; kw_part < kw_end; ++kw_part) {{\n{start}"
            f"{deep}const int64 kw_first = py::first(kw_part, kw_count, kw_parts);\n"
            f"{deep}const int64 kw_last = py::first(kw_part + 1, kw_count, kw_parts);\n"
            f"{self._iterations(loop, plan, depth + 3, 'kw_first', 'kw_last')}{end}{inner}}}\n{pad}}});\n"
            f"{pad}for (int64 kw_part = 0; kw_part < kw_parts; ++kw_part) {{\n{merge}{pad}}}\n"
            f"{pad}if (error->set) {self.leave}1;\n"
        )
        if not plan.scatters:
            return f"{text}{parallel}{INDENT * depth}}}\n"
        held = " && ".join(f"{buffer.name}scratch.data" for buffer, _ in plan.scatters)
        alone = self.plain_loop(loop, depth + 1)
        text += f"{pad}if ({held}) {{\n{parallel}{pad}}} else {{\n{alone}{pad}}}\n"
        return f"{text}{INDENT * depth}}}\n"

    def _joined(self, op: Op, type: ScalarType, a: str, b: str) -> str:
        match op:
            case Op.ADD | Op.MUL:
                return f"py::{op.value}({a}, {b})"
            case Op.MAXIMUM | Op.MINIMUM:
                return f"{b} {'>' if op is Op.MAXIMUM else '<'} {a} ? {b} : {a}"
        raise LoweringError(f"no sums of {op.value}")

    # ---- what the loop needs ------------------------------------------------------------------------------------

    def _count(self, loop: Range) -> str:
        return f"py::turns({self.value(loop.start)}, {self.value(loop.stop)}, {loop.step})"

    def _grain(self, loop: Range) -> str:
        """How many iterations are worth a thread."""
        return f"py::grain({WORTH_SHARING}, {self._work(loop.body, assigned((loop,)))})"

    def _work(self, body: tuple[Command, ...], changing: set[str]) -> str:
        known, terms = 1, []
        for command in body:
            known += sum(1 + cost(expression) for expression in expressions(command))
            inner = [self._work(one, changing) for one in bodies(command)]
            turns = str(_UNKNOWN_TURNS)
            if isinstance(command, Range) and not (variables(command.start) | variables(command.stop)) & changing:
                turns = self._count(command)
            elif not isinstance(command, (Range, Loop)):
                turns = "1"
            terms += [f"{turns} * ({one})" for one in inner if one != "1"]
        return " + ".join([str(known), *terms])

    def _names(self, loop: Range, plan: LoopPlan) -> list[str]:
        """The names from outside that the loop uses."""
        used = variables(loop.start)
        for command in commands(loop.body):
            for expression in expressions(command):
                used |= variables(expression)
                for node in walk(expression):
                    used |= _parts_of(node.buffer) if isinstance(node, Load) else set()
            if isinstance(command, (Store, Accumulate)):
                used |= _parts_of(command.buffer)
        own = assigned((loop,)) | {buffer.name for buffer in plan.locals} | {buffer.name for buffer, _ in plan.scatters}
        return sorted(used - own)


def _parts_of(buffer: Buffer) -> set[str]:
    return {buffer.name, *(stride for stride in buffer.strides if isinstance(stride, str))}


def _captures(names: list[str], plan: LoopPlan | None = None) -> str:
    scatters = [f"kw_{b.name}all = {b.name}scratch.data" for b, _ in plan.scatters] if plan else []
    fixed = ["error", *(["kw_count", "kw_parts"] if plan else [])]
    return f"[{', '.join([*fixed, *(f'kw_{name} = {_captured(name)}' for name in names), *scatters])}]"


def _captured(name: str) -> str:
    return f"&{name}[0]" if name.endswith("_parts") else name


def _constants(names: list[str], depth: int, plan: LoopPlan | None = None) -> str:
    scatters = [f"{buffer.name}all" for buffer, _ in plan.scatters] if plan else []
    return "".join(f"{INDENT * depth}const auto {name} = kw_{name};\n" for name in [*names, *scatters])


def _small(loop: Range) -> bool:
    """Whether sharing out is never worth it."""
    if not isinstance(loop.start, Constant) or not isinstance(loop.stop, Constant):
        return False
    inner = any(isinstance(command, (Range, Loop)) for command in commands(loop.body))
    return not inner and abs(loop.stop.value - loop.start.value) < WORTH_SHARING // 100


def _identity(op: Op, type: ScalarType) -> str:
    if op in (Op.ADD, Op.MUL):
        return "0" if op is Op.ADD else "1"
    if type.floating:
        return "-__builtin_inff()" if op is Op.MAXIMUM else "__builtin_inff()"
    return f"py::lowest<{VALUE[type]}>()" if op is Op.MAXIMUM else f"{VALUE[type]}(~py::lowest<{VALUE[type]}>())"


def _axes(type: ArrayType | ScalarType) -> str:
    assert isinstance(type, ArrayType)
    return f"{type.ndim}, {type.dtype.bytes}"
