"""Which index checks can be made once before a loop: the range of an index over a whole loop nest.

The ends of a range are C++ expressions of 128 bits, in which nothing overflows; where both lie within the axis, so does
the index each time, since between them it takes no other values. Indices inside an `if` are left out: they are often
guarded by it, and one that cannot be shown would keep the whole loop from running without checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.loops.expressions import Apply, Constant, Expression, Op, Select, Variable, variables
from kernelwright.loops.nest import Let
from kernelwright.loops.program import Assign, Command, Index, Loop, Range, commands
from kernelwright.loops.python_cpp import PythonExpressions

Ends = tuple[str, str]
"""The smallest and the largest value, as text."""


@dataclass(frozen=True)
class Proof:
    """These Index commands need no check where `condition` holds before the loop; "" is always."""

    indices: frozenset[int]
    """By id()."""
    condition: str
    always: frozenset[int]
    """Those that need none whatever the arguments are."""


def assigned(body: tuple[Command, ...]) -> set[str]:
    """The names of all variables that commands of the body give values to."""
    names = set()
    for command in commands(body):
        match command:
            case Let(variable) | Assign(variable):
                names.add(variable.name)
            case Index() | Range():
                names.add((command.variable if isinstance(command, Index) else command.index).name)
    return names


def prove(loop: Range, known: frozenset[int]) -> Proof:
    """What can be shown before the loop of the indices in it, `known` ones aside."""
    prover = _Prover(assigned((loop,)))
    conditions: dict[str, None] = {}
    shown, always = set(), set()
    for index, ends in prover.indices((loop,)):
        if id(index) in known or prover.changes(index.size):
            continue
        size = _wide(index.size)
        low, high = ends
        shown.add(id(index))
        open_ends = [] if low.isdigit() else [f"{low} >= 0"]
        open_ends += [] if high == f"({size} - 1)" else [f"{high} < {size}"]
        if not open_ends:
            always.add(id(index))
        conditions |= dict.fromkeys(open_ends)
    return Proof(frozenset(shown), " && ".join(conditions), frozenset(always))


class _Prover:
    def __init__(self, changing: set[str]) -> None:
        self.changing = changing
        self.ends: dict[str, Ends] = {}

    def changes(self, expression: Expression) -> bool:
        return bool(variables(expression) & self.changing)

    def indices(self, body: tuple[Command, ...]) -> Iterator[tuple[Index, Ends]]:
        """The Index commands whose ends are known."""
        for command in body:
            match command:
                case Range():
                    start, stop = self.of(command.start), self.of(command.stop)
                    if start and stop and command.step > 0:
                        self.ends[command.index.name] = (start[0], _minus(stop[1], "1"))
                    elif start and stop:
                        self.ends[command.index.name] = (f"({stop[0]} + 1)", start[1])
                    yield from self.indices(command.body)
                case Loop(inner):
                    yield from self.indices(inner)
                case Let(variable, value):
                    if (ends := self.of(value)) is not None:
                        self.ends[variable.name] = ends
                case Index():
                    if (ends := self.of(command.value)) is not None:
                        yield command, ends

    def of(self, expression: Expression) -> Ends | None:
        """The ends of an expression of INT64; None where they are not known."""
        if expression.type.floating:
            return None
        if isinstance(expression, Constant) or not self.changes(expression):
            text = _wide(expression)
            return text, text
        match expression:
            case Variable(name):
                return self.ends.get(name)
            case Apply(Op.ADD, operands) if (both := self._both(*operands)) is not None:
                (a, b), (c, d) = both
                return _plus(a, c), _plus(b, d)
            case Apply(Op.SUB, operands) if (both := self._both(*operands)) is not None:
                (a, b), (c, d) = both
                return _minus(a, d), _minus(b, c)
            case Apply(Op.MUL, (other, Constant(factor))) | Apply(Op.MUL, (Constant(factor), other)):
                ends = self.of(other)
                if ends is None:
                    return None
                scaled = [f"({end} * {int(factor)})" for end in ends]
                return (scaled[0], scaled[1]) if factor >= 0 else (scaled[1], scaled[0])
            case Apply(Op.FLOORED_MOD, (_, divisor)) if not self.changes(divisor):
                size = _wide(divisor)
                if isinstance(divisor, Constant) and divisor.value > 0:
                    return "0", _minus(size, "1")
                return f"py::least({size} + 1, 0)", f"py::most({size} - 1, 0)"
            case Apply(Op.FLOORED_DIV, (other, Constant(divisor))) if divisor > 0:
                ends = self.of(other)
                return ends and (f"py::halved({ends[0]}, {divisor})", f"py::halved({ends[1]}, {divisor})")
            case Select(Apply(Op.LT | Op.GT as op, (b, a)), then, otherwise) if (b, a) == (then, otherwise):
                both = self._both(a, b)
                pick = "py::least" if op is Op.LT else "py::most"
                return both and (f"{pick}({both[0][0]}, {both[1][0]})", f"{pick}({both[0][1]}, {both[1][1]})")
        return None

    def _both(self, a: Expression, b: Expression) -> tuple[Ends, Ends] | None:
        first, second = self.of(a), self.of(b)
        return (first, second) if first is not None and second is not None else None


def _plus(a: str, b: str) -> str:
    if a == "0" or b == "0":
        return b if a == "0" else a
    return str(int(a) + int(b)) if _number(a) and _number(b) else f"({a} + {b})"


def _minus(a: str, b: str) -> str:
    if b == "0":
        return a
    return str(int(a) - int(b)) if _number(a) and _number(b) else f"({a} - {b})"


def _number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _wide(expression: Expression) -> str:
    """The value as the program computes it, in 128 bits."""
    if isinstance(expression, Constant):
        return str(int(expression.value))
    return f"py::wide({PythonExpressions().value(expression)})"
