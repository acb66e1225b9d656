"""A fused computation as a list of steps over one domain, and the plain loop nest that runs it.

The domain has `outer` dimensions and `inner` ones. Each outer position is a row. A step's value is either full (one
for each element of the domain) or a row's (one for each row). Reductions turn full values into row values, so the row
is passed over once for each reduction that waits for an earlier one: softmax is three passes (maximum, sum, result),
layer norm three (mean, variance, result). `nest` recomputes in each pass what it needs; the schedules decide what is
kept instead.
"""

from dataclasses import dataclass

from kernelwright.loops.expressions import (
    Buffer,
    Constant,
    Expression,
    Load,
    Size,
    Variable,
    index_of,
    rewritten,
    size_of,
    variables,
)
from kernelwright.loops.nest import Declare, For, Kernel, Let, Reduction, Statement, Store, Update, check
from kernelwright.loops.types import ScalarType


@dataclass(frozen=True)
class Operand:
    """An input. Steps name it as they name each other."""

    name: str
    type: ScalarType
    strides: tuple[Size, ...]
    """One for each dimension of the domain, in elements; 0 where the input is broadcast."""
    offset: int = 0


@dataclass(frozen=True)
class Step:
    """A value, from operands and earlier steps by their names."""

    name: str
    value: Expression
    reduction: Reduction | None = None
    """Over the inner dimensions."""


@dataclass(frozen=True)
class Result:
    """A step's value written out: an element for each of the domain, or one for each row."""

    name: str
    type: ScalarType
    step: str
    strides: tuple[Size, ...]
    """In elements: for each dimension of the domain, or for each outer one where it is a row's."""
    row: bool = False


@dataclass(frozen=True)
class Fusion:
    """See the module. `dims` are outer first; the last `inner` of them make up the row."""

    name: str
    dims: tuple[Size, ...]
    inner: int
    operands: tuple[Operand, ...]
    steps: tuple[Step, ...]
    results: tuple[Result, ...]
    sizes: tuple[str, ...] = ()
    """The names among dims and strides, in the order in which a call passes them."""
    note: str = ""

    @property
    def outer_dims(self) -> tuple[Size, ...]:
        return self.dims[: len(self.dims) - self.inner]

    @property
    def inner_dims(self) -> tuple[Size, ...]:
        return self.dims[len(self.dims) - self.inner :]

    @property
    def row_elements(self) -> int | None:
        """Elements of a row; None where that is not static."""
        count = 1
        for size in self.inner_dims:
            if isinstance(size, str):
                return None
            count *= size
        return count

    @property
    def reduces(self) -> bool:
        return any(step.reduction is not None for step in self.steps)


@dataclass(frozen=True)
class _Place:
    """When a value can be had: in pass `ready` or later, for each element (`full`) or once a row."""

    full: bool
    ready: int


def nest(fusion: Fusion) -> Kernel:
    """The plain nest: one loop per dimension, one inner nest per pass, everything recomputed where it is needed."""
    return _Builder(fusion).kernel()


class _Builder:
    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.indices = tuple(f"i{d}" for d in range(len(fusion.dims)))
        self.row_indices = self.indices[: len(fusion.outer_dims)]
        self.steps = {step.name: step for step in fusion.steps}
        self.operands = {
            operand.name: Buffer(operand.name, operand.type, fusion.dims, operand.strides, operand.offset)
            for operand in fusion.operands
        }
        self.places: dict[str, _Place] = {}
        for operand in fusion.operands:
            across = operand.strides[len(fusion.outer_dims) :]
            self.places[operand.name] = _Place(any(stride != 0 for stride in across) or not fusion.reduces, 0)
        for step in fusion.steps:
            self.places[step.name] = self._place(step)
        self.passes = 1 + max((self.places[name].ready for name in self.places), default=0)

    def _place(self, step: Step) -> _Place:
        used = [self.places[name] for name in variables(step.value)]
        ready = max((place.ready for place in used), default=0)
        if step.reduction is not None:
            return _Place(False, ready + 1)
        return _Place(any(place.full for place in used) or not self.fusion.reduces, ready)

    def kernel(self) -> Kernel:
        fusion = self.fusion
        outputs = tuple(self._output(result) for result in fusion.results)
        body: list[Statement] = []
        for number in range(self.passes):
            body += self._row_values(number)
            body += self._pass(number, dict(zip(fusion.results, outputs, strict=True)))
        nested = tuple(body)
        for index, size in reversed(list(zip(self.row_indices, fusion.outer_dims, strict=True))):
            nested = (For(index, Constant(0, ScalarType.INT64), size_of(size), nested),)
        kernel = Kernel(
            fusion.name, outputs, tuple(self.operands.values()), fusion.sizes, nested, fusion.note or fusion.name
        )
        check(kernel)
        return kernel

    def _output(self, result: Result) -> Buffer:
        shape = self.fusion.outer_dims if result.row else self.fusion.dims
        return Buffer(result.name, result.type, shape, result.strides)

    def _row_values(self, number: int) -> list[Statement]:
        """What is the same for the whole row and can be had once pass `number - 1` is over."""
        found: list[Statement] = []
        for operand in self.fusion.operands:
            if not self.places[operand.name].full and number == 0:
                found.append(self._let_operand(operand.name))
        for step in self.fusion.steps:
            place = self.places[step.name]
            if not place.full and place.ready == number and step.reduction is None:
                found.append(self._let_step(step))
        return found

    def _pass(self, number: int, outputs: dict[Result, Buffer]) -> list[Statement]:
        """The row results that are there by now, then the accumulators and the loop of pass `number`."""
        declared: list[Statement] = []
        ends: list[Statement] = []
        wanted: set[str] = set()
        for step in self.fusion.steps:
            if step.reduction is not None and self.places[step.name].ready == number + 1:
                accumulator = Variable(step.name, step.value.type)
                declared.append(Declare(accumulator, step.reduction))
                ends.append(Update(accumulator, step.reduction, self._read(step.value)))
                wanted |= variables(step.value)
        before: list[Statement] = []
        for result, buffer in outputs.items():
            if self.places[result.step].ready != number:
                continue
            value = self._read(Variable(result.step, self._type(result.step)))
            if result.row:
                before.append(Store(buffer, tuple(index_of(name) for name in self.row_indices), value))
            else:
                ends.append(Store(buffer, tuple(index_of(name) for name in self.indices), value))
                wanted.add(result.step)
        if not ends:
            return before
        body: tuple[Statement, ...] = (*self._values(wanted), *ends)
        inner = self.indices[len(self.row_indices) :]
        for index, size in reversed(list(zip(inner, self.fusion.inner_dims, strict=True))):
            body = (For(index, Constant(0, ScalarType.INT64), size_of(size), body),)
        return [*before, *declared, *body]

    def _values(self, wanted: set[str]) -> list[Statement]:
        """The full values a pass needs, in order, each from scratch."""
        needed: set[str] = set()
        waiting = [name for name in wanted if self.places[name].full]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                if name in self.steps:
                    waiting += [used for used in variables(self.steps[name].value) if self.places[used].full]
        lets: list[Statement] = [self._let_operand(name) for name in self.operands if name in needed]
        lets += [self._let_step(step) for step in self.fusion.steps if step.name in needed]
        return lets

    def _let_step(self, step: Step) -> Let:
        return Let(Variable(step.name, step.value.type), self._read(step.value))

    def _read(self, value: Expression) -> Expression:
        """The expression with operands' elements in the place of their names."""
        return rewritten(
            value,
            lambda node: (
                Variable(_element(node.name), node.type)
                if isinstance(node, Variable) and node.name in self.operands
                else None
            ),
        )

    def _let_operand(self, name: str) -> Let:
        buffer = self.operands[name]
        full = self.places[name].full
        zero = Constant(0, ScalarType.INT64)
        index = tuple(index_of(index) if full or index in self.row_indices else zero for index in self.indices)
        # A dimension along which the buffer does not move is left out of the address by its stride of 0.
        load = Load(buffer, tuple(zero if s == 0 else i for i, s in zip(index, buffer.strides, strict=True)))
        return Let(Variable(_element(name), load.type), load)

    def _type(self, name: str) -> ScalarType:
        return self.operands[name].type.compute if name in self.operands else self.steps[name].value.type


def _element(operand: str) -> str:
    """The name of the element of an operand that is being worked on."""
    return f"{operand}_i"
