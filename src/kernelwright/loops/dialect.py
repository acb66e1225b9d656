"""What languages of devices call things, and how many threads work together in them."""

import math
from dataclasses import dataclass

from kernelwright.loops.expressions import Constant, Expression, Op
from kernelwright.loops.types import ScalarType

LARGEST_FLOAT32 = 3.4028234663852886e38
GROUP = 256
"""Threads in a group where they work together."""
STAGE = 32
"""Threads in a group that keeps its items' arrays in shared memory: few, so that groups fill it without a rest."""
COPIES = 32
"""Most copies of bins that a group keeps: one for each lane, so that lanes seldom meet."""


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
    thread: tuple[str, ...]
    """The parameters that are the thread's number and its number in its group; none where `number` and `lane` need
    none."""
    number: str
    lane: str
    shared: str
    """How memory that a group shares is declared."""
    twins: bool
    """Whether threads can add to memory that a group shares, of a size that each launch chooses."""
    atomics: frozenset[ScalarType]
    """Types whose elements several threads can add to."""
    refused: frozenset[ScalarType]
    missing: frozenset[Op]
    infinity: str
    nan: str
    double: str = "double"
    """What float64 is. Another word is a struct {hi, lo} of two floats, made by `py::pair`."""
    double_missing: frozenset[Op] = frozenset()
    """Functions that there are for float32 alone."""

    @property
    def pairs(self) -> bool:
        """Whether float64 is two floats."""
        return self.double != "double"

    def special(self, expression: Expression) -> str | None:
        """The text of an infinity or NaN; None of anything else."""
        if not isinstance(expression, Constant) or not expression.type.floating or math.isfinite(expression.value):
            return None
        if expression.value != expression.value:
            return self.nan
        return self.infinity if expression.value > 0 else f"(-{self.infinity})"
