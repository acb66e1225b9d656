"""What the lowering of a function and of the functions inlined into it share."""

from dataclasses import dataclass, field

from kernelwright.loops.expressions import Apply, Buffer, Constant, Expression, Op, Variable
from kernelwright.loops.program import Command
from kernelwright.loops.python.promotion import join
from kernelwright.loops.types import ScalarType


@dataclass
class Builder:
    """One pass. `types` are the variables' types as earlier passes found them; a pass can only widen them."""

    real: ScalarType
    types: dict[str, ScalarType]
    arguments: int
    immutable: set[str] = field(default_factory=set)
    """Variables that never change: sizes, scalar arguments without assignment."""
    lets: set[str] = field(default_factory=set)
    """Variables that never change while they are in sight."""
    locals: list[Buffer] = field(default_factory=list)
    written: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    inlined: list[str] = field(default_factory=list)
    """The functions being inlined, outermost first."""
    used: set[str] = field(default_factory=set)
    count: int = 0
    instances: int = 0
    block: list[Command] = field(default_factory=list)
    """Where commands go."""
    indices: int = 0

    def emit(self, command: Command) -> None:
        self.block.append(command)

    def fresh(self, type: ScalarType) -> Variable:
        """A temporary, to be bound by a Let or an Index."""
        self.count += 1
        self.lets.add(f"t{self.count}")
        return Variable(f"t{self.count}", type)

    def widen(self, name: str, type: ScalarType) -> ScalarType:
        """The variable's type once it has taken a value of `type`."""
        self.used.add(name)
        known = self.types.get(name)
        self.types[name] = type if known is None else join(known, type, self.real)
        return self.types[name]

    def constant(self, expression: Expression) -> bool:
        """Whether the expression is the same wherever it stands: cheap arithmetic of what never changes."""
        match expression:
            case Constant():
                return True
            case Variable(name):
                return name in self.immutable
            case Apply(Op.ADD | Op.SUB | Op.MUL, (a, b)):
                return a.type is ScalarType.INT64 and self.constant(a) and self.constant(b)
            case _:
                return False
