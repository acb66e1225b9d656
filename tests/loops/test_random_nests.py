"""Random loop nests: the C++ and the Metal printed of them agree, the latter hosted on this machine.

Inputs are small multiples of 1/8, and what is drawn carries a bound of its size and of its error, so the budget of each
result is known. Where a rounding could tip the result over, as in a floor or a comparison, only exact values are drawn.
"""

import dataclasses
import math
import random
from dataclasses import dataclass

import pytest
import torch

import kernelwright
from kernelwright import metal
from kernelwright.errors import LoweringError
from kernelwright.loops import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Declare,
    Expression,
    For,
    Fusion,
    Kernel,
    Let,
    Load,
    Local,
    Op,
    Operand,
    Plan,
    Reduction,
    Result,
    ScalarType,
    Select,
    Size,
    Statement,
    Step,
    Store,
    Update,
    Variable,
    msl_kernel_template,
    nest,
    parallelise,
    print_cpp,
    print_msl,
    scheduled,
    split,
    turned,
    vectorise,
)
from kernelwright.loops.expressions import index_of, plus
from kernelwright.loops.nest import check, statements

F32, F16, BF16, F64 = ScalarType.FLOAT32, ScalarType.FLOAT16, ScalarType.BFLOAT16, ScalarType.FLOAT64
I64, I32, U8, BOOL = ScalarType.INT64, ScalarType.INT32, ScalarType.UINT8, ScalarType.BOOL
TORCH = {
    F32: torch.float32,
    F16: torch.float16,
    BF16: torch.bfloat16,
    I64: torch.int64,
    I32: torch.int32,
    U8: torch.uint8,
    BOOL: torch.bool,
}
EPS = {F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}
ZERO = Constant(0, I64)
LARGEST = 4.0
"""Of the inputs' magnitudes."""
MOST_INPUTS = 20
"""Metal's kernels have 31 buffers."""
EXACT = 2.0**24
"""Up to here float32 has all whole numbers."""
# Functions whose slope is at most the number given, on what keeps them within [-1, 1], or within their argument.
SMOOTH = {
    Op.TANH: 1.0,
    Op.SIGMOID: 0.25,
    Op.ERF: 1.13,
    Op.GELU: 1.13,
    Op.EXP: 1.0,
    Op.EXP_FALLING: 1.0,
    Op.EXPM1: 1.0,
    Op.LOG: 1.0,
    Op.LOG1P: 1.0,
    Op.SQRT: 0.5,
    Op.RSQRT: 0.5,
}
FALLING = (Op.EXP, Op.EXP_FALLING, Op.EXPM1)
POSITIVE = (Op.LOG, Op.SQRT, Op.RSQRT)


@dataclass(frozen=True)
class Value:
    """An expression, the bound of its magnitude, and by how much two ways to compute it may differ."""

    expression: Expression
    bound: float
    error: float = 0.0
    fraction: int | None = 0
    """Bits behind the point of what is computed exactly."""

    @property
    def exact(self) -> bool:
        return self.fraction is not None


def made(expression: Expression, bound: float, error: float, *of: Value, more: int = 0) -> Value:
    """A value computed from others: exact if they are and its bits fit."""
    fractions = [value.fraction for value in of if value.fraction is not None]
    fraction = max(fractions, default=0) + more
    if len(fractions) == len(of) and (not expression.type.floating or bound * 2.0**fraction <= EXACT):
        return Value(expression, bound, 0.0, fraction)
    return Value(expression, bound, error + 2 * EPS[F32] * bound, None)


class Draw:
    """Draws a kernel."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0
        self.inputs: list[Buffer] = []
        self.outputs: list[Buffer] = []
        self.budgets: list[float] = []
        """Of each output."""
        self.scope: list[Value] = []
        self.indices: dict[str, int] = {}
        """The loops around, with the first number that their index does not reach."""
        self.locals: list[tuple[Buffer, Value]] = []

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pick(self, *choices):
        return self.chance.choice(choices)

    # ---- expressions --------------------------------------------------------------------------------------------

    def leaf(self, type: ScalarType) -> Value:
        own = [value for value in self.scope if value.expression.type is type]
        if own and self.chance.random() < 0.6:
            return self.pick(*own)
        if self.indices and len(self.inputs) < MOST_INPUTS and self.chance.random() < 0.7:
            return self.load(type)
        if type is BOOL:
            return Value(Constant(self.pick(True, False), BOOL), 1)
        number = self.pick(0, 1, -1, 3, -2)
        return Value(Constant(number * 0.5, F32), 1.5, 0, 1) if type is F32 else Value(Constant(number, I64), 3)

    def load(self, type: ScalarType) -> Value:
        if type is F32 and self.locals and self.chance.random() < 0.5:
            buffer, value = self.pick(*self.locals)
            fitting = [name for name, stop in self.indices.items() if stop <= buffer.shape[0]]
            if fitting:
                place = index_of(self.pick(*fitting))
                return dataclasses.replace(value, expression=Load(buffer, (place,)))
        stored = {F32: self.pick(F32, F32, F16, BF16), I64: self.pick(I64, I32, U8), BOOL: BOOL}[type]
        names = self.chance.sample(list(self.indices), self.chance.randint(1, min(3, len(self.indices))))
        index, shape = tuple(self.place(name) for name in names), tuple(self.indices[name] for name in names)
        alike = [b for b in self.inputs if b.type is stored and b.shape == shape]
        if not alike or len(self.inputs) < 3:
            strides = self.strides(shape, spare=self.pick(0, 0, 3))
            alike = [Buffer(self.fresh("x"), stored, shape, strides, self.pick(0, 0, 5))]
            self.inputs += alike
        load: Expression = Load(self.pick(*alike), index)
        if type is F32:
            return Value(load, LARGEST, 0, 3)
        return Value(load if load.type is type else Cast(type, load), 9)

    def place(self, name: str) -> Expression:
        """A loop's index, from the start or from the end."""
        if self.chance.random() < 0.8:
            return index_of(name)
        return Apply(Op.SUB, (Constant(self.indices[name] - 1, I64), index_of(name)))

    def strides(self, shape: tuple[int, ...], spare: int = 0) -> tuple[int, ...]:
        """Of memory in which the dimensions lie in any order."""
        strides, step = [0] * len(shape), 1
        for axis in self.chance.sample(range(len(shape)), len(shape)):
            strides[axis] = step
            step = step * shape[axis] + spare
        return tuple(strides)

    def floating(self, depth: int, *, exact: bool = False) -> Value:
        """A float32 value of at most some hundreds."""
        value = self._floating(depth, exact)
        return value if value.bound < 1e4 and (value.exact or not exact) else self.floating(depth - 1, exact=exact)

    def _floating(self, depth: int, exact: bool) -> Value:
        if depth <= 0:
            value = self.leaf(F32)
            return value if value.bound < 1e4 and (value.exact or not exact) else Value(Constant(0.25, F32), 1, 0, 2)
        kinds = ["add", "sub", "mul", "extreme", "extreme", "select", "sign", "step", "integer", "leaf", "special"]
        kinds += [] if exact else ["smooth"] * 5 + ["quotient", "quotient", "rounded"]
        a = self.floating(depth - 1, exact=exact)
        match self.pick(*kinds):
            case "add" | "sub" as kind:
                b = self.floating(depth - 1, exact=exact)
                op = Op.ADD if kind == "add" else Op.SUB
                return made(Apply(op, (a.expression, b.expression)), a.bound + b.bound, a.error + b.error, a, b)
            case "mul":
                b = self.floating(depth - 1, exact=exact)
                error = a.error * b.bound + b.error * a.bound
                more = min(a.fraction or 0, b.fraction or 0)
                return made(Apply(Op.MUL, (a.expression, b.expression)), a.bound * b.bound, error, a, b, more=more)
            case "extreme":
                b = self.floating(depth - 1, exact=exact)
                op = self.pick(Op.MAXIMUM, Op.MINIMUM)
                bound, error = max(a.bound, b.bound), max(a.error, b.error)
                return made(Apply(op, (a.expression, b.expression)), bound, error, a, b)
            case "special":
                op, infinity = self.pick((Op.MINIMUM, math.inf), (Op.MAXIMUM, -math.inf))
                return dataclasses.replace(a, expression=Apply(op, (a.expression, Constant(infinity, F32))))
            case "select":
                b, condition = self.floating(depth - 1, exact=exact), self.condition(depth - 1)
                expression = Select(condition.expression, a.expression, b.expression)
                return made(expression, max(a.bound, b.bound), max(a.error, b.error), a, b)
            case "sign":
                return dataclasses.replace(a, expression=Apply(self.pick(Op.NEG, Op.ABS), (a.expression,)))
            case "step":
                a = self.floating(depth - 1, exact=True)
                op = self.pick(Op.FLOOR, Op.CEIL, Op.TRUNC, Op.ROUND, Op.SIGN)
                return Value(Apply(op, (a.expression,)), a.bound + 1)
            case "integer":
                whole = self.whole(depth - 1)
                return Value(Cast(F32, whole.expression), whole.bound) if whole.bound < 1000 else a
            case "rounded" if a.bound < 1000:
                type = self.pick(F16, BF16)
                return Value(Cast(type, a.expression), a.bound, a.error + EPS[type] * a.bound, None)
            case "quotient":
                b = self.floating(depth - 1)
                more = Apply(Op.ADD, (Apply(Op.ABS, (b.expression,)), Constant(1.0, F32)))
                error = a.error + a.bound * b.error + 2 * EPS[F32] * a.bound
                return Value(Apply(Op.DIV, (a.expression, more)), a.bound, error, None)
            case "smooth":
                op = self.pick(*SMOOTH)
                argument, slope = a.expression, SMOOTH[op]
                if op in FALLING:
                    argument = Apply(Op.NEG, (Apply(Op.ABS, (argument,)),))
                elif op in POSITIVE or op is Op.LOG1P:
                    argument = Apply(Op.ABS, (argument,))
                    if op in POSITIVE:
                        argument = Apply(Op.ADD, (argument, Constant(1.0, F32)))
                bound = max(1.0, a.bound) if op in (Op.GELU, Op.LOG, Op.LOG1P, Op.SQRT) else 1.0
                # Up to four units in the last place each, and the rounding of the argument.
                error = slope * (a.error + EPS[F32] * (a.bound + 1)) + 8 * EPS[F32] * bound
                return Value(Apply(op, (argument,)), bound, error, None)
        return a

    def whole(self, depth: int) -> Value:
        """An int64 value, of any size that is far from overflow."""
        counters = [Value(index_of(name), stop) for name, stop in self.indices.items()]
        if depth <= 0:
            value = self.pick(self.leaf(I64), *counters)
            return value if value.bound < 2**20 else Value(Constant(5, I64), 5)
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        match self.pick("add", "mul", "extreme", "divide", "select", "sign", "cast"):
            case "add":
                op = self.pick(Op.ADD, Op.SUB)
                return Value(Apply(op, (a.expression, b.expression)), a.bound + b.bound)
            case "mul" if a.bound * b.bound < 2**40:
                return Value(Apply(Op.MUL, (a.expression, b.expression)), a.bound * b.bound)
            case "extreme":
                op = self.pick(Op.MAXIMUM, Op.MINIMUM)
                return Value(Apply(op, (a.expression, b.expression)), max(a.bound, b.bound))
            case "divide":
                op, divisor = self.pick(Op.FLOOR_DIV, Op.MOD), Constant(self.pick(1, 2, 7), I64)
                return Value(Apply(op, (Apply(Op.ABS, (a.expression,)), divisor)), a.bound)
            case "select":
                condition = self.condition(depth - 1)
                return Value(Select(condition.expression, a.expression, b.expression), max(a.bound, b.bound))
            case "sign":
                return Value(Apply(self.pick(Op.NEG, Op.ABS, Op.SIGN), (a.expression,)), a.bound)
            case "cast":
                value = self.pick(self.floating(depth - 1, exact=True), self.condition(depth - 1))
                return Value(Cast(I64, value.expression), value.bound)
        return a

    def condition(self, depth: int) -> Value:
        if depth <= 0:
            return self.leaf(BOOL)
        match self.pick("compare", "compare", "both", "not", "cast"):
            case "compare":
                draw = self.pick(self.whole, lambda depth: self.floating(depth, exact=True))
                op = self.pick(Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE)
                return Value(Apply(op, (draw(depth - 1).expression, draw(depth - 1).expression)), 1)
            case "both":
                op = self.pick(Op.AND, Op.OR)
                return Value(Apply(op, (self.condition(depth - 1).expression, self.condition(depth - 1).expression)), 1)
            case "not":
                return Value(Apply(Op.NOT, (self.condition(depth - 1).expression,)), 1)
        return Value(Cast(BOOL, self.whole(depth - 1).expression), 1)

    def any(self, depth: int) -> Value:
        return self.pick(self.floating, self.floating, self.whole, self.condition)(depth)

    def reduced(self, variable: str, value: Value, reduction: Reduction, turns: int) -> Value:
        accumulator = Variable(variable, value.expression.type)
        if reduction is not Reduction.SUM:
            return dataclasses.replace(value, expression=accumulator)
        # Each of up to `turns` additions rounds.
        error = turns * (value.error + EPS[F32] * turns * value.bound)
        return made(accumulator, turns * value.bound, error, value)

    def reduction(self, type: ScalarType) -> Reduction:
        extremes = (Reduction.MAXIMUM, Reduction.MINIMUM, *([Reduction.LARGEST] if type is F32 else []))
        return self.pick(Reduction.SUM, Reduction.SUM, *extremes)

    def result(self, value: Value) -> ScalarType:
        """The type of an output that takes the value, whose budget is noted."""
        type = value.expression.type
        if type is F32:
            type = self.pick(F32, F32, *([F16, BF16] if value.bound < 3e4 else []))
        elif type is I64 and value.bound < 2**31:
            type = self.pick(I64, I32)
        # A result that is not exact may be rounded either way.
        self.budgets.append(0.0 if value.exact else value.error + EPS[type] * value.bound)
        return type

    # ---- statements ---------------------------------------------------------------------------------------------

    def lets(self) -> list[Statement]:
        found: list[Statement] = []
        for _ in range(self.pick(0, 1, 2)):
            value = self.any(2)
            variable = Variable(self.fresh("v"), value.expression.type)
            found.append(Let(variable, value.expression))
            self.scope.append(dataclasses.replace(value, expression=variable))
        return found

    def loop(self, body) -> For:
        """A loop around what `body` draws. Some begin or end at another loop's index; each takes a turn at least."""
        stop = self.pick(1, 2, 3, 5, 8, 17)
        name, scope, locals_ = self.fresh("j"), list(self.scope), list(self.locals)
        ends: tuple[Expression, Expression] = (ZERO, Constant(stop, I64))
        lower = [outer for outer, extent in self.indices.items() if extent <= stop]
        if lower and self.chance.random() < 0.4:
            outer = index_of(self.pick(*lower))
            ends = self.pick((outer, Constant(stop, I64)), (ZERO, plus(outer, Constant(1, I64))))
        self.indices[name] = stop
        inner = body(name, stop)
        del self.indices[name]
        self.scope, self.locals = scope, locals_
        return For(name, *ends, tuple(inner))

    def section(self, deep: bool = True) -> list[Statement]:
        """Some values, and perhaps a loop that reduces, stores, or fills a local buffer."""
        found = self.lets()
        match self.pick("reduce", "reduce", "reduce", "store", "local", "none"):
            case "reduce":
                own: list[tuple[Variable, Reduction, Value]] = []

                def reduce(_: str, stop: int) -> list[Statement]:
                    body = [*(self.section(False) if deep and self.chance.random() < 0.3 else self.lets())]
                    for _number in range(self.pick(1, 1, 2)):
                        value = self.pick(self.floating, self.floating, self.whole)(2)
                        reduction = self.reduction(value.expression.type)
                        accumulator = Variable(self.fresh("a"), value.expression.type)
                        own.append((accumulator, reduction, self.reduced(accumulator.name, value, reduction, stop)))
                        body.append(Update(accumulator, reduction, value.expression))
                    return body

                loop = self.loop(reduce)
                found += [Declare(accumulator, reduction) for accumulator, reduction, _ in own]
                found.append(loop)
                self.scope += [value for _, _, value in own]
            case "store":
                found.append(self.loop(lambda _name, _stop: [*self.lets(), self.store()]))
            case "local":
                size, name = self.pick(3, 8, 17), self.fresh("j")
                self.indices[name] = size
                value = self.floating(2)
                del self.indices[name]
                buffer = Buffer(self.fresh("t"), F32, (size,), (1,))
                fill = For(name, ZERO, Constant(size, I64), (Store(buffer, (index_of(name),), value.expression),))
                found += [Local(buffer), fill]
                self.locals.append((buffer, value))
        return found

    def store(self) -> Store:
        """To an output of its own, at the place that all loops around it name."""
        value = self.any(3)
        type, shape = self.result(value), tuple(self.indices.values())
        self.outputs.append(Buffer(self.fresh("out"), type, shape, self.strides(shape)))
        index = tuple(index_of(name) for name in self.indices)
        return Store(self.outputs[-1], index, value.expression)

    def kernel(self, name: str) -> tuple[Kernel, int]:
        """A kernel and how many outer loops may be merged."""
        outer = [self.pick(1, 2, 3, 5, 7, 16) for _ in range(self.pick(1, 2, 3))]
        self.indices = {f"i{axis}": extent for axis, extent in enumerate(outer)}
        body: list[Statement] = []
        for _ in range(self.pick(1, 2, 3)):
            body += self.section()
        body.append(self.store())
        nested = tuple(body)
        for index, extent in reversed(self.indices.items()):
            nested = (For(index, ZERO, Constant(extent, I64), nested),)
        kernel = Kernel(name, tuple(self.outputs), tuple(self.inputs), (), nested)
        check(kernel)
        return kernel, len(outer)

    def fusion(self, name: str) -> tuple[Fusion, dict[str, int]]:
        """A fusion and its sizes: what a graph's region becomes."""
        shape = self.pick((7,), (257,), (3, 17), (130, 5), (33, 70), (2, 5, 31), (4, 3, 64), (1, 1, 129), (5000,))
        inner = self.chance.randint(0 if len(shape) > 1 else 1, min(2, len(shape)))
        named = {f"n{axis}": extent for axis, extent in enumerate(shape) if self.chance.random() < 0.3}
        dims: tuple[Size, ...] = tuple(f"n{axis}" if f"n{axis}" in named else s for axis, s in enumerate(shape))
        operands: list[Operand] = []
        for _ in range(self.pick(1, 2, 3)):
            type = self.pick(F32, F32, F16, BF16)
            kept = [axis for axis in range(len(shape)) if not operands or self.chance.random() < 0.7]
            strides = dict(zip(kept, self.strides(tuple(shape[axis] for axis in kept)), strict=True))
            every = tuple(strides.get(axis, 0) for axis in range(len(shape)))
            operands.append(Operand(self.fresh("x"), type, every, self.pick(0, 0, 3)))
            self.scope.append(Value(Variable(operands[-1].name, F32), LARGEST, 0, 3))
        turns = math.prod(shape[len(shape) - inner :])
        steps: list[Step] = []
        for _ in range(self.pick(1, 2, 3, 4)):
            value = self.floating(2)
            reduction = self.reduction(F32) if inner and self.chance.random() < 0.4 else None
            steps.append(Step(self.fresh("s"), value.expression, reduction))
            after = dataclasses.replace(value, expression=Variable(steps[-1].name, F32))
            self.scope.append(self.reduced(steps[-1].name, value, reduction, turns) if reduction else after)
        value = self.floating(3)
        steps.append(Step("y", value.expression))
        result = Result("out", self.result(value), "y", self.strides(shape))
        return Fusion(name, dims, inner, tuple(operands), tuple(steps), (result,), tuple(named)), named

    def plan(self) -> Plan:
        return Plan(
            interleave=self.pick(1, 4),
            keep_row=self.pick(True, False),
            keep_from=self.pick(1, 8),
            grain_elements=self.pick(1, 16384),
            block=self.pick(64, 4096),
            tiles=self.pick(True, True, False),
            stream_bytes=self.pick(0, 1),
        )


@dataclass(frozen=True)
class Nest:
    """One computation in two orders, and what the results may differ by."""

    cpp: Kernel
    msl: Kernel
    sizes: dict[str, int]
    budgets: list[float]


def drawn(number: int) -> Nest:
    """Every other one a fusion with a plan, which its region would get; the others nests of any form."""
    draw, name = Draw(number), f"nest{number}"
    if number % 2:
        fusion, sizes = draw.fusion(name)
        plain = nest(fusion)
        outer = len(fusion.outer_dims)
        grid = parallelise(plain, outer, 1) if outer else plain
        grid = draw.pick(grid, parallelise(turned(plain), 1, 1))
        return Nest(scheduled(plain, draw.plan()), grid, sizes, draw.budgets)
    kernel, outer = draw.kernel(name)
    both = []
    for _ in range(2):
        whole = [s.index for s in statements(kernel.body) if isinstance(s, For) and s.start == ZERO]
        own = split(kernel, draw.pick(*whole), draw.pick(2, 3, 8))
        own = parallelise(own, 1 if own != kernel else draw.chance.randint(1, outer), draw.pick(1, 100))
        both.append(vectorise(own, draw.pick(1, 2, 4)))
    return Nest(both[0], both[1], {}, draw.budgets)


def tensor(buffer: Buffer, sizes: dict[str, int], seed: int) -> torch.Tensor:
    """Memory for the buffer, all of it: multiples of 1/8, or small integers."""
    extent = buffer.offset + 1
    for size, stride in zip(buffer.shape, buffer.strides, strict=True):
        extent += (sizes.get(str(size), size if isinstance(size, int) else 0) - 1) * int(stride)
    chance = torch.Generator().manual_seed(seed)
    dtype = TORCH[buffer.type]
    if buffer.type.floating:
        return (torch.randint(-32, 33, (extent,), generator=chance) / 8).to(dtype)
    low, high = {BOOL: (0, 2), U8: (0, 10)}.get(buffer.type, (-9, 10))
    return torch.randint(low, high, (extent,), generator=chance).to(dtype)


def number_of(expression: Expression, sizes: dict[str, int]) -> int:
    """The value of a number of threads."""
    match expression:
        case Constant(value):
            return int(value)
        case Variable(name):
            return sizes[name]
        case Apply(op, (a, b)):
            x, y = number_of(a, sizes), number_of(b, sizes)
            return {Op.ADD: x + y, Op.SUB: x - y, Op.MUL: x * y, Op.FLOOR_DIV: x // max(1, y)}[op]
    raise ValueError(expression)


def agree(numbers: range) -> int:
    """Compares the nests of these numbers; how many numbers were compared."""
    nests = [drawn(number) for number in numbers]
    printed = [print_msl(one.msl) for one in nests]
    library = metal.compile_shader("\n".join([msl_kernel_template(), *(kernel.text for kernel in printed)]))
    if isinstance(library, metal.Library):
        library.build()
    compiled = kernelwright.compile("\n".join(print_cpp(one.cpp) for one in nests), language="cpp")
    compared = 0
    for number, one, kernel in zip(numbers, nests, printed, strict=True):
        inputs = [tensor(b, one.sizes, number + place) for place, b in enumerate(one.cpp.inputs)]
        before = [tensor(b, one.sizes, -1 - place) for place, b in enumerate(one.cpp.outputs)]
        found, wanted = [out.clone() for out in before], [out.clone() for out in before]
        sizes = list(one.sizes.values())
        getattr(compiled, one.cpp.name)(*wanted, *inputs, *sizes)
        threads = number_of(kernel.threads, one.sizes)
        getattr(library, one.msl.name)(*found, *inputs, *sizes, threads=threads)
        for buffer, got, want, old, budget in zip(one.cpp.outputs, found, wanted, before, one.budgets, strict=True):
            told = f"nest {number}, {buffer.name}: {print_cpp(one.cpp)}\n{kernel.text}"
            assert not torch.equal(want, old) or want.numel() < 9, told
            torch.testing.assert_close(
                got.double(), want.double(), rtol=0, atol=budget, msg=lambda m, told=told: m + told
            )
            compared += got.numel()
    return compared


def test_random_nests_agree() -> None:
    assert agree(range(40)) > 10_000


@pytest.mark.slow
def test_many_random_nests_agree() -> None:
    assert sum(agree(range(start, start + 50)) for start in range(0, 300, 50)) > 100_000


TRUTHS = {
    Op.TANH: torch.tanh,
    Op.SIGMOID: torch.sigmoid,
    Op.ERF: torch.erf,
    Op.GELU: torch.nn.functional.gelu,
    Op.EXPM1: torch.expm1,
    Op.LOG1P: torch.log1p,
    Op.EXP_FALLING: lambda x: torch.exp(-x.abs()),
}


def test_functions_that_metal_lacks() -> None:
    """Those we make of others, against float64, over where they bend."""
    x = torch.cat([torch.linspace(-0.9, 0.9, 4001), torch.linspace(-0.9, 8.0, 4001)])
    shape, i = (len(x),), index_of("i")
    source, outputs = Buffer("x", F32, shape, (1,)), [Buffer(f"{op.value}_", F32, shape, (1,)) for op in TRUTHS]
    body: list[Statement] = []
    for op, out in zip(TRUTHS, outputs, strict=True):
        argument: Expression = Load(source, (i,))
        if op is Op.EXP_FALLING:
            argument = Apply(Op.NEG, (Apply(Op.ABS, (argument,)),))
        body.append(Store(out, (i,), Apply(op, (argument,))))
    loop = For("i", ZERO, Constant(len(x), I64), tuple(body), grain=1)
    kernel = print_msl(Kernel("functions", tuple(outputs), (source,), (), (loop,)))
    results = [torch.empty(shape) for _ in outputs]
    library = metal.compile_shader(msl_kernel_template() + kernel.text)
    library.functions(*results, x, threads=len(x))
    for (op, truth), got in zip(TRUTHS.items(), results, strict=True):
        exact = truth(x.double())
        # Where gelu falls towards 0 its error is that of its argument.
        unit = EPS[F32] * torch.maximum(exact.abs(), x.abs() if op is Op.GELU else torch.zeros(()))
        assert ((got.double() - exact).abs() <= 4 * unit + 1e-38).all(), op


def test_metal_has_31_buffers() -> None:
    inputs = tuple(Buffer(f"x{number}", F32, (4,), (1,)) for number in range(31))
    body = (Store(Buffer("out", F32, (4,), (1,)), (ZERO,), Load(inputs[0], (ZERO,))),)
    with pytest.raises(LoweringError, match="32 parameters"):
        print_msl(Kernel("many", (Buffer("out", F32, (4,), (1,)),), inputs, (), body))


def test_metal_computes_nothing_in_float64() -> None:
    out, i = Buffer("out", F32, (4,), (1,)), index_of("i")
    value = Cast(F32, Apply(Op.ADD, (Constant(1.0, F64), Constant(2.0, F64))))
    kernel = Kernel("wide", (out,), (), (), (For("i", ZERO, Constant(4, I64), (Store(out, (i,), value),)),))
    with pytest.raises(LoweringError, match="float64"):
        print_msl(kernel)
