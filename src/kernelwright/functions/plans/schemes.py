"""The plans for a scatter over rows that cannot change, each as a program that reads tables instead of the rows.

    segmented   rows sorted by where they add to, so that a sum stays in registers and is added once
    factored    the same, where value = weight * product and few products are distinct: they are computed first
    folded      rows of the same product and place are one row, their weights summed up: a small dense table

They add the same numbers in another order, which is fixed: a plan gives the same bits in every run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kernelwright.functions.plans.rows import Scatter, substituted
from kernelwright.functions.plans.tables import ONE, ZERO, Tables, distinct, element, packed
from kernelwright.loops import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Expression,
    Let,
    Load,
    Local,
    Op,
    Program,
    ScalarType,
    Store,
    Variable,
)
from kernelwright.loops.program import Accumulate, Assign, Command, If, Range

_LANES = 4
"""Sums kept at once: an addition takes four cycles, and two can begin in each."""
MOST_PRODUCTS = 4096
LARGEST_TABLE = 1 << 20
_FOLD_GAIN = 8
"""A dense table's element costs about an eighth of a row: it is read in order and in vectors."""
_WIDE_ROWS = 1 << 16
"""Up to here weights are kept as they are multiplied: they stay in the cache. Beyond, bytes are what costs."""
I64 = ScalarType.INT64


@dataclass(frozen=True)
class Scheme:
    """A plan's program and tables."""

    name: str
    program: Program
    tables: tuple[np.ndarray, ...]


def schemes(program: Program, scatter: Scatter) -> list[Scheme]:
    """The plans that fit, the plainest first."""
    order = np.argsort(packed(segment_of(scatter.key)), kind="stable")  # 16 bits are sorted by radix
    scatter = in_order(scatter, order)
    found = [_segmented(program, scatter)]
    product = factored_out(scatter)
    if product is not None:
        found += _with_products(program, scatter, product)
    return found


# ---- segments -------------------------------------------------------------------------------------------------------


def segment_of(key: Sequence[np.ndarray]) -> np.ndarray:
    """One number for each place that is added to."""
    return np.ravel_multi_index(tuple(key), tuple(int(axis.max()) + 1 for axis in key))


def in_order(scatter: Scatter, order: np.ndarray) -> Scatter:
    return replace(
        scatter,
        key=tuple(axis[order] for axis in scatter.key),
        columns={name: column[order] for name, column in scatter.columns.items()},
    )


Value = Callable[[Expression, str], tuple[list[Command], Expression]]
"""What is to be done for the row at an index, and the value it adds; names of its own end in the text."""


def _segments(scatter: Scatter, tables: Tables, value: Value) -> list[Command]:
    """for each segment: sum its rows' values in lanes, add the sum to its place."""
    segment = segment_of(scatter.key)
    firsts = np.flatnonzero(np.concatenate(([True], segment[1:] != segment[:-1])))
    offsets = tables.add(packed(np.concatenate((firsts, [scatter.count]))))
    keys = [tables.add(packed(axis[firsts])) for axis in scatter.key]
    update, type = scatter.update, scatter.update.value.type
    s, low, high, even = (Variable(f"plan_{name}", I64) for name in ("s", "low", "high", "even"))
    sums = [Variable(f"plan_sum{lane}", type) for lane in range(_LANES)]
    zero = Constant(0.0 if type.floating else 0, type)
    n, m = Variable("plan_n", I64), Variable("plan_m", I64)
    wide: list[Command] = []
    for lane in range(_LANES):
        commands, added = value(_plus(n, lane), f"_{lane}")
        wide += [*commands, Assign(sums[lane], Apply(Op.ADD, (sums[lane], added)))]
    commands, added = value(m, "_rest")
    narrow = [*commands, Assign(sums[0], Apply(Op.ADD, (sums[0], added)))]
    whole = Apply(Op.SUB, (high, Apply(Op.BIT_AND, (Apply(Op.SUB, (high, low)), Constant(_LANES - 1, I64)))))
    places = tuple(Variable(f"plan_key{axis}", I64) for axis in range(len(keys)))
    total = Apply(Op.ADD, (Apply(Op.ADD, (sums[0], sums[1])), Apply(Op.ADD, (sums[2], sums[3]))))
    body: list[Command] = [
        Let(low, element(offsets, (s,), I64)),
        Let(high, element(offsets, (Apply(Op.ADD, (s, ONE)),), I64)),
        Let(even, whole),
        *(Assign(variable, zero) for variable in sums),
        Range(n, low, even, _LANES, tuple(wide), update.where),
        Range(m, even, high, 1, tuple(narrow), update.where),
        *(Let(place, element(table, (s,), I64)) for place, table in zip(places, keys, strict=True)),
        *added_to(update.buffer, places, total),
    ]
    # No two segments add to one place, which no analysis could know.
    return [Range(s, ZERO, Constant(len(firsts), I64), 1, tuple(body), update.where, asserted=True)]


def added_to(buffer: Buffer, places: tuple[Expression, ...], total: Expression) -> list[Command]:
    """element = element + total, as a read and a write: segments run on several threads, and need no parts of their
    own to add up in."""
    old = Variable("plan_old", buffer.type.compute)
    sum = Apply(Op.ADD, (_cast(old, total.type), total))
    return [Let(old, Load(buffer, places)), Store(buffer, places, _cast(sum, old.type))]


def _cast(value: Expression, type: ScalarType) -> Expression:
    return value if value.type is type else Cast(type, value)


def _sums(program: Program, scatter: Scatter) -> Program:
    """The program with the variables of `_segments`."""
    sums = tuple(Variable(f"plan_sum{lane}", scatter.update.value.type) for lane in range(_LANES))
    return replace(program, variables=(*program.variables, *sums))


def _plus(index: Variable, offset: int) -> Expression:
    return Apply(Op.ADD, (index, Constant(offset, I64))) if offset else index


def replaced(program: Program, scatter: Scatter, commands: Sequence[Command], tables: Tables) -> Program:
    """The program with the loop replaced."""
    body = (*program.body[: scatter.place], *commands, *program.body[scatter.place + 1 :])
    return tables.declared(replace(program, body=body))


def _segmented(program: Program, scatter: Scatter) -> Scheme:
    tables = Tables()
    columns = {name: tables.add(packed(column)) for name, column in scatter.columns.items()}

    def value(index: Expression, suffix: str) -> tuple[list[Command], Expression]:
        return row_body(scatter, columns, index, suffix, scatter.update.value)

    commands = _segments(scatter, tables, value)
    return Scheme("segmented", replaced(_sums(program, scatter), scatter, commands, tables), tuple(tables.arrays))


def row_body(
    scatter: Scatter, columns: dict[str, Buffer], index: Expression, suffix: str, value: Expression
) -> tuple[list[Command], Expression]:
    """The loop's body for the row at `index` of the tables, under names of its own."""
    commands: list[Command] = []
    names: dict[str, Expression] = {}
    for name, table in columns.items():
        variable = Variable(f"{name}{suffix}", scatter.types[name])
        commands.append(Let(variable, element(table, (index,), scatter.types[name])))
        names[name] = variable
    for let in scatter.lets:
        variable = Variable(f"{let.variable.name}{suffix}", let.variable.type)
        commands.append(Let(variable, substituted(let.value, names)))
        names[let.variable.name] = variable
    return commands, substituted(value, names)


# ---- products -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Product:
    """value = weight * product: the weights of all rows, and the rest of the value."""

    weight: np.ndarray
    rest: Expression
    columns: tuple[str, ...]
    """What the rest reads of a row."""


def factored_out(scatter: Scatter) -> Product | None:
    """The value as a weight that rows alone decide, times what they do not. None where it is no floating product."""
    type = scatter.update.value.type
    if not type.floating:
        return None
    lets = {let.variable.name: let.value for let in scatter.lets}
    weights: list[np.ndarray] = []
    rest: list[Expression] = []
    for factor in _factors(scatter.update.value, lets):
        rows = _of_rows(factor, scatter)
        if rows is None:
            rest.append(factor)
        else:
            weights.append(rows)
    if not rest:
        return None
    dtype = np.dtype(type.value)
    weight = np.ones(scatter.count, dtype)
    for rows in weights:
        weight = weight * rows.astype(dtype)
    product = rest[0]
    for factor in rest[1:]:
        product = Apply(Op.MUL, (product, factor))
    wanted = reads([product], scatter)
    return Product(weight, product, tuple(name for name in scatter.columns if name in wanted))


def _factors(value: Expression, lets: dict[str, Expression]) -> list[Expression]:
    match value:
        case Apply(Op.MUL, (left, right)):
            return _factors(left, lets) + _factors(right, lets)
        case Variable(name) if isinstance(lets.get(name), Apply) and lets[name].type is value.type:
            inner = _factors(lets[name], lets)
            return inner if len(inner) > 1 else [value]
        case _:
            return [value]


def _of_rows(factor: Expression, scatter: Scatter) -> np.ndarray | None:
    match factor:
        case Variable(name) if name in scatter.columns:
            return scatter.columns[name]
        case Cast(to, Variable(name)) if name in scatter.columns and to.floating:
            return scatter.columns[name].astype(np.dtype(to.value))
        case Constant(number, type):
            return np.full(scatter.count, number, np.dtype(type.value))
        case _:
            return None


def reads(values: Sequence[Expression], scatter: Scatter) -> set[str]:
    """The variables these expressions read, through lets too."""
    from kernelwright.loops.expressions import variables

    lets = {let.variable.name: let.value for let in scatter.lets}
    found: set[str] = set()
    waiting = [name for value in values for name in variables(value)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += variables(lets[name]) if name in lets else ()
    return found


def _with_products(program: Program, scatter: Scatter, product: Product) -> list[Scheme]:
    """The plans that compute each distinct product once."""
    if not product.columns:
        pair, firsts = np.zeros(scatter.count, np.int64), np.zeros(1, np.int64)
    else:
        firsts, pair = distinct([scatter.columns[name] for name in product.columns])
    if len(firsts) > min(MOST_PRODUCTS, scatter.count // 2):
        return []
    factored = _Factored(program, scatter, product, pair, firsts)
    found = [factored.scheme()]
    if len(scatter.key) == 1:
        low, high = int(scatter.key[0].min()), int(scatter.key[0].max())
        size = len(firsts) * (high - low + 1)
        if size <= min(LARGEST_TABLE, _FOLD_GAIN * scatter.count):
            found.append(factored.folded(low, high - low + 1))
    return found


class _Factored:
    """Products first, into memory of the call's own; then sums of weighted ones."""

    def __init__(
        self, program: Program, scatter: Scatter, product: Product, pair: np.ndarray, firsts: np.ndarray
    ) -> None:
        self.program, self.scatter, self.weight, self.pair, self.count = (
            program,
            scatter,
            product.weight,
            pair,
            len(firsts),
        )
        self.type = scatter.update.value.type
        self.tables = Tables()
        columns = {name: self.tables.add(packed(scatter.columns[name][firsts])) for name in product.columns}
        wanted = reads([product.rest], scatter)
        inner = replace(scatter, lets=tuple(let for let in scatter.lets if let.variable.name in wanted))
        self.products = Buffer("plan_products", self.type, (self.count,), (1,))
        p = Variable("plan_p", I64)
        commands, value = row_body(inner, columns, p, "_p", product.rest)
        store = Store(self.products, (p,), value)
        self.first: list[Command] = [
            Local(self.products),
            Range(p, ZERO, Constant(self.count, I64), 1, (*commands, store), scatter.update.where),
        ]

    def scheme(self) -> Scheme:
        commands = [*self.first, *self._summed()]
        return Scheme("factored", self._put(commands), tuple(self.tables.arrays))

    def folded(self, low: int, bins: int) -> Scheme:
        """With one table of the summed weights. Where a product is not finite it would reach places that it must not
        reach (0 * inf): then the segments do it."""
        scatter, type, where = self.scatter, self.type, self.scatter.update.where
        table = np.zeros((self.count, bins), np.dtype(type.value))
        np.add.at(table, (self.pair, scatter.key[0] - low), self.weight)
        buffer = self.tables.add(table)
        p, q, c = Variable("plan_q", I64), Variable("plan_r", I64), Variable("plan_c", I64)
        bad, zero = Variable("plan_bad", type), Constant(0.0, type)
        factor = Variable("plan_factor", type)
        seen = Assign(bad, Apply(Op.ADD, (bad, Apply(Op.MUL, (Load(self.products, (p,)), zero)))))
        place = Apply(Op.ADD, (c, Constant(low, I64))) if low else c
        added = Apply(Op.MUL, (factor, Load(buffer, (q, c))))
        row = Range(
            c, ZERO, Constant(bins, I64), 1, (Accumulate(scatter.update.buffer, (place,), Op.ADD, added, where),), where
        )
        dense = Range(q, ZERO, Constant(self.count, I64), 1, (Let(factor, Load(self.products, (q,))), row), where)
        commands: list[Command] = [
            *self.first,
            Assign(bad, zero),
            Range(p, ZERO, Constant(self.count, I64), 1, (seen,), where),
            If(Apply(Op.EQ, (bad, zero)), (dense,), tuple(self._summed())),
        ]
        program = self._put(commands)
        program = replace(program, variables=(*program.variables, bad))
        return Scheme("folded", program, tuple(self.tables.arrays))

    def _summed(self) -> list[Command]:
        weight = self.weight
        if len(weight) > _WIDE_ROWS and np.all(weight == np.trunc(weight)) and np.all(abs(weight) < 1 << 31):
            weight = packed(weight.astype(np.int64))
        weights = self.tables.add(weight)
        pairs = self.tables.add(packed(self.pair))

        def value(index: Expression, suffix: str) -> tuple[list[Command], Expression]:
            product = Load(
                self.products, (Cast(I64, Load(pairs, (index,))) if pairs.type is not I64 else Load(pairs, (index,)),)
            )
            return [], Apply(Op.MUL, (element(weights, (index,), self.type), product))

        return _segments(self.scatter, self.tables, value)

    def _put(self, commands: Sequence[Command]) -> Program:
        program = replace(self.program, locals=(*self.program.locals, self.products))
        return replaced(_sums(program, self.scatter), self.scatter, commands, self.tables)
