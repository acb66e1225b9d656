"""What becomes of a sum before it is written: the elementwise operators that hand-tuned templates take in."""

from dataclasses import dataclass

from kernelwright.loops.cpp_expressions import MEMORY, VALUE, CppExpressions
from kernelwright.loops.expressions import Expression, Variable
from kernelwright.loops.nest import Let
from kernelwright.loops.types import ScalarType


@dataclass(frozen=True)
class Read:
    """A number that an epilogue reads of an input: `name` is a variable of its steps."""

    name: str
    type: ScalarType
    along: str
    """The place it has in the input: a name that the template gives its lambda, "index" for that of the result's
    element, or "0"."""


SUM = Variable("sum", ScalarType.FLOAT32)


@dataclass(frozen=True)
class Epilogue:
    """An element of the result from its sum."""

    reads: tuple[Read, ...] = ()
    steps: tuple[Let, ...] = ()
    result: Expression = SUM

    @property
    def parameters(self) -> list[str]:
        """The inputs of `reads`, in order, as a kernel's parameters."""
        return [f"const {MEMORY[read.type]}* {name}" for name, read in zip(self.inputs, self.reads, strict=True)]

    @property
    def inputs(self) -> list[str]:
        return [f"in{number}" for number in range(len(self.reads))]


AS_IS = Epilogue()
"""The sum itself."""


def print_epilogue(epilogue: Epilogue, places: tuple[str, ...]) -> str:
    """It as a C++ lambda of the sum and, as int64, its `places`."""
    written = CppExpressions()
    reads = zip(epilogue.inputs, epilogue.reads, strict=True)
    lines = [f"(void){', (void)'.join(places)};"]
    lines += [f"const {VALUE[read.type.compute]} {read.name} = {name}[{read.along}];" for name, read in reads]
    lines += [f"const {VALUE[s.variable.type]} {s.variable.name} = {written.value(s.value)};" for s in epilogue.steps]
    lines.append(f"return {written.value(epilogue.result)};")
    head = f"[=](float sum, {', '.join(f'int64 {place}' for place in places)}) {{\n"
    return head + "".join(f"            {line}\n" for line in lines) + "        }"
