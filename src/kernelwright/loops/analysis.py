"""Which loops may run in another order, and why: docs/design/python_loops.md says what is shown and what is assumed.

Sound rather than clever: what is not shown to be independent is serial. Two assumptions are left to be tested when the
program runs: that array arguments which are written do not overlap others, and that no index is out of bounds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from kernelwright.loops.bounds import assigned
from kernelwright.loops.expressions import Apply, Buffer, Constant, Expression, Op, Select, Variable, variables, walk
from kernelwright.loops.liveness import Liveness, exposed
from kernelwright.loops.nest import Let, Local, Store
from kernelwright.loops.program import (
    Accumulate,
    Assign,
    Break,
    Command,
    If,
    Index,
    Loop,
    Program,
    Range,
    Return,
    Where,
    commands,
    expressions,
    loads,
)


class Kind(Enum):
    """How a loop may run."""

    PARALLEL = "parallel"
    REDUCTION = "reduction"
    """Parallel but for variables that add up."""
    SCATTER = "scatter"
    """Parallel but for elements that add up, at places that may meet."""
    SCAN = "scan"
    """A running sum whose steps are used: done serially."""
    SERIAL = "serial"


@dataclass(frozen=True)
class LoopPlan:
    """A loop and what was found out. Names are the program's own."""

    loop: Range | Loop
    kind: Kind
    reason: str
    private: tuple[str, ...] = ()
    """Variables each iteration has for itself."""
    reductions: tuple[tuple[str, Op], ...] = ()
    scatters: tuple[tuple[Buffer, Op], ...] = ()
    locals: tuple[Buffer, ...] = ()
    """Arrays each iteration has for itself."""

    @property
    def where(self) -> Where:
        return self.loop.where

    @property
    def free(self) -> bool:
        """Whether iterations may run at the same time."""
        return self.kind in (Kind.PARALLEL, Kind.REDUCTION, Kind.SCATTER)


@dataclass(frozen=True)
class ProgramPlan:
    """All loops of a program in the order of its text."""

    loops: tuple[LoopPlan, ...]

    def of(self, loop: Range | Loop) -> LoopPlan:
        return next(plan for plan in self.loops if plan.loop is loop)

    def lines(self) -> list[str]:
        """For people: one line a loop."""
        return [f"line {plan.where.line}: {plan.kind.value}: {plan.reason}" for plan in self.loops]


class _Dependent(Exception):
    """Why a loop is serial."""


class _Running(_Dependent):
    """Why a loop is a scan."""


def analyse(program: Program) -> ProgramPlan:
    """What each loop of the program allows."""
    liveness = Liveness(program)
    plans: list[LoopPlan] = []
    for command in commands(program.body):
        if isinstance(command, Loop):
            plans.append(LoopPlan(command, Kind.SERIAL, "a while loop: every turn may depend on the one before"))
        elif isinstance(command, Range):
            plans.append(_Analysis(command, liveness).plan())
    return ProgramPlan(tuple(plans))


class _Analysis:
    def __init__(self, loop: Range, liveness: Liveness) -> None:
        self.loop = loop
        self.liveness = liveness
        self.inside = tuple(commands(loop.body))
        self.changing = assigned((loop,))
        self.values: dict[str, Expression] = {}
        for command in self.inside:
            if isinstance(command, (Let, Index)):
                self.values[command.variable.name] = command.value

    def plan(self) -> LoopPlan:
        try:
            self._leaves()
            private, reductions = self._variables()
            scatters, locals = self._arrays()
        except _Dependent as reason:
            kind = Kind.SCAN if isinstance(reason, _Running) else Kind.SERIAL
            return LoopPlan(self.loop, kind, str(reason))
        words = []
        if reductions:
            words.append(f"{_listed(name for name, _ in reductions)} only adds up")
        if scatters:
            words.append(f"elements of {_listed(b.name for b, _ in scatters)} only add up, at places that may meet")
        kind = Kind.SCATTER if scatters else (Kind.REDUCTION if reductions else Kind.PARALLEL)
        if kind is Kind.PARALLEL:
            words.append("no iteration writes what another one reads or writes")
        if self.loop.asserted:
            words.append("prange says that iterations are independent")
        return LoopPlan(self.loop, kind, "; ".join(words), private, reductions, scatters, locals)

    def _leaves(self) -> None:
        if any(isinstance(command, Return) for command in self.inside):
            raise _Dependent("it may end early by a return")
        if _breaks(self.loop.body):
            raise _Dependent("it may end early by a break")

    # ---- variables ----------------------------------------------------------------------------------------------

    def _variables(self) -> tuple[tuple[str, ...], tuple[tuple[str, Op], ...]]:
        written = {command.variable.name for command in self.inside if isinstance(command, Assign)}
        wanted = exposed(self.loop.body, self.liveness) | self.liveness.after[id(self.loop)]
        private = tuple(sorted(written - wanted))
        return private, tuple((name, self._reduction(name)) for name in sorted(written & wanted))

    def _reduction(self, name: str) -> Op:
        """The operation by which the variable adds up, and nothing else happens to it."""
        found: set[Op] = set()
        uses = 0
        for command in self.inside:
            uses += sum(
                isinstance(node, Variable) and node.name == name for e in expressions(command) for node in walk(e)
            )
            if isinstance(command, Assign) and command.variable.name == name:
                step = _step(name, command.value)
                if step is None:
                    raise _Dependent(f"{_plain(name)} carries a value from one iteration to the next")
                op, inner = step
                found.add(op)
                uses -= inner
        if len(found) != 1:
            raise _Dependent(f"{_plain(name)} carries a value from one iteration to the next")
        if uses:
            raise _Running(f"{_plain(name)} is a running value that is used on the way")
        return found.pop()

    # ---- arrays -------------------------------------------------------------------------------------------------

    def _arrays(self) -> tuple[tuple[tuple[Buffer, Op], ...], tuple[Buffer, ...]]:
        locals = tuple(command.buffer for command in self.inside if isinstance(command, Local))
        own = {buffer.name for buffer in locals}
        accesses: dict[str, list[tuple[Expression, ...]]] = {}
        updates: dict[str, list[Accumulate]] = {}
        buffers: dict[str, Buffer] = {}
        written: set[str] = set()
        for command in self.inside:
            for load in loads(command):
                accesses.setdefault(load.buffer.name, []).append(load.index)
            if isinstance(command, (Store, Accumulate)):
                written.add(command.buffer.name)
                buffers[command.buffer.name] = command.buffer
            if isinstance(command, Store):
                accesses.setdefault(command.buffer.name, []).append(command.index)
            elif isinstance(command, Accumulate):
                updates.setdefault(command.buffer.name, []).append(command)
        scatters: list[tuple[Buffer, Op]] = []
        for name in sorted(written - own):
            places = [*accesses.get(name, []), *(update.index for update in updates.get(name, []))]
            if self._apart(places):
                continue
            ops = {Op.ADD if update.op is Op.SUB else update.op for update in updates.get(name, [])}
            if name not in accesses and len(ops) == 1:
                scatters.append((buffers[name], ops.pop()))
            elif not self.loop.asserted or name in updates:
                raise _Dependent(f"two iterations may meet at one element of {_plain(name)}, which is written")
        return tuple(scatters), locals

    def _apart(self, places: list[tuple[Expression, ...]]) -> bool:
        """Whether no two iterations touch one element: along some axis, each has a place of its own."""
        for axis in range(len(places[0])):
            forms = {self._linear(place[axis]) for place in places}
            form = forms.pop() if len(forms) == 1 else None
            if form is not None and form[0] != 0 and self._stays_positive(*form):
                return True
        return False

    def _linear(self, expression: Expression) -> tuple[int, Expression | int] | None:
        """(a, b) where the expression is a * index + b and b the same in all iterations; None where it is not."""
        match expression:
            case Variable(name) if name == self.loop.index.name:
                return 1, 0
            case Constant(value):
                return 0, int(value)
            case Variable(name) if name in self.values:
                return self._linear(self.values[name])
            case Apply(Op.ADD | Op.SUB as op, (left, right)):
                a, b = self._linear(left), self._linear(right)
                if a is None or b is None:
                    return None
                sign = 1 if op is Op.ADD else -1
                if isinstance(b[1], int) and isinstance(a[1], int):
                    return a[0] + sign * b[0], a[1] + sign * b[1]
                if sign == 1 and (a[1] == 0 or b[1] == 0):
                    return a[0] + b[0], a[1] if b[1] == 0 else b[1]
            case Apply(Op.MUL, (other, Constant(factor))) | Apply(Op.MUL, (Constant(factor), other)):
                inner = self._linear(other)
                if inner is not None and isinstance(inner[1], int):
                    return inner[0] * int(factor), inner[1] * int(factor)
        return (0, expression) if not variables(expression) & self.changing else None

    def _stays_positive(self, factor: int, offset: Expression | int) -> bool:
        """Whether factor * index + offset is never below 0: an index from the end may meet one from the start."""
        first = self.loop.start if self.loop.step > 0 else self.loop.stop
        if isinstance(offset, Variable) and offset.name.rsplit("_n", 1)[-1].isdigit():
            offset = 0  # a size
        if not isinstance(first, Constant) or not isinstance(offset, int) or factor < 0:
            return False
        lowest = int(first.value) + (0 if self.loop.step > 0 else 1)
        return factor * lowest + offset >= 0


def _step(name: str, value: Expression) -> tuple[Op, int] | None:
    """The operation of name = name op x, and how often the name occurs in it for that."""
    match value:
        case Apply(Op.ADD | Op.MUL as op, (Variable(own), other)) | Apply(
            Op.ADD | Op.MUL as op, (other, Variable(own))
        ):
            return (op, 1) if own == name and name not in variables(other) else None
        case Apply(Op.SUB, (Variable(own), other)):
            return (Op.ADD, 1) if own == name and name not in variables(other) else None
        case Select(Apply(Op.GT | Op.LT as op, (b, a)), then, otherwise) if (b, a) == (then, otherwise):
            if isinstance(a, Variable) and a.name == name and name not in variables(b):
                return (Op.MAXIMUM if op is Op.GT else Op.MINIMUM), 2
    return None


def _breaks(body: tuple[Command, ...]) -> bool:
    """Whether a Break of this very loop is inside."""
    return any(
        isinstance(command, Break)
        or (isinstance(command, If) and (_breaks(command.then) or _breaks(command.otherwise)))
        for command in body
    )


def _plain(name: str) -> str:
    """As the user wrote it."""
    return name.split("_f")[0].rstrip("_") if name.endswith("_") or "_f" in name else name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_plain(name) for name in names)
