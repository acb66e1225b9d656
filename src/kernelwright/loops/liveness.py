"""Which variables' values are still wanted: at the start of a body, and after each loop."""

from kernelwright.loops.expressions import Expression, variables
from kernelwright.loops.program import (
    Assign,
    Break,
    Command,
    Continue,
    If,
    Loop,
    Program,
    Range,
    Return,
    expressions,
)

_NONE: frozenset[str] = frozenset()
_ROUNDS = 3
"""A name travels once around each loop that encloses it; nests deeper than this are met again at each level."""


class Liveness:
    """`after[id(loop)]` are the variables read after the loop, or by a later turn of one around it, before a write."""

    def __init__(self, program: Program) -> None:
        self.after: dict[int, frozenset[str]] = {}
        self.before(program.body)

    def before(
        self,
        body: tuple[Command, ...],
        after: frozenset[str] = _NONE,
        broken: frozenset[str] = _NONE,
        continued: frozenset[str] = _NONE,
    ) -> frozenset[str]:
        """What is wanted at the start of the body, given what is wanted at its end, after a Break and a Continue."""
        live = after
        for command in reversed(body):
            match command:
                case Assign(variable, value):
                    live = (live - {variable.name}) | variables(value)
                case If(condition, then, otherwise):
                    live = self.before(then, live, broken, continued) | self.before(otherwise, live, broken, continued)
                    live |= variables(condition)
                case Range() | Loop():
                    live = self._loop(command, live)
                case Break():
                    live = broken
                case Continue():
                    live = continued
                case Return(values):
                    live = _read(values)
                case _:
                    live |= _read(expressions(command))
        return live

    def _loop(self, loop: Range | Loop, after: frozenset[str]) -> frozenset[str]:
        self.after[id(loop)] = self.after.get(id(loop), _NONE) | after
        head = after if isinstance(loop, Range) else _NONE
        for _ in range(_ROUNDS):
            head |= self.before(loop.body, head, after, head)
        return head | _read(expressions(loop))


def exposed(body: tuple[Command, ...], liveness: Liveness) -> frozenset[str]:
    """The variables that one run of the body reads before it writes them."""
    return liveness.before(body)


def _read(parts: tuple[Expression, ...]) -> frozenset[str]:
    return frozenset().union(*(variables(part) for part in parts))
