"""The plans for a scatter over rows that cannot change, on a device: see schemes.py for the CPU's.

    segmented   rows sorted by where they add to; groups of threads add up parts of a segment, then the parts
    folded      rows of the same product and place are one row, their weights summed up: a small dense table

No two threads add to one element, so a plan gives the same bits in every run.
"""

from dataclasses import dataclass, replace

import numpy as np

from kernelwright.functions.plans.rows import Scatter
from kernelwright.functions.plans.schemes import (
    I64,
    LARGEST_TABLE,
    MOST_PRODUCTS,
    Product,
    added_to,
    factored_out,
    in_order,
    reads,
    replaced,
    row_body,
    segment_of,
)
from kernelwright.functions.plans.tables import ONE, ZERO, Tables, distinct, element, packed
from kernelwright.loops import (
    Apply,
    Buffer,
    Constant,
    Expression,
    Let,
    Load,
    Op,
    Program,
    ScalarType,
    Select,
    Store,
    Variable,
)
from kernelwright.loops.program import Assign, Command, Range

_PART = 8192
"""Rows that a group of threads adds up: enough for it to have begun, and few enough for groups to be many."""
_TEAM = 64
"""Rows of a segment, on average, for which a group is worth it; below, a thread does it alone."""


@dataclass(frozen=True)
class DeviceScheme:
    """A plan's program, its tables, and after them what each call needs as memory of its own."""

    name: str
    program: Program
    tables: tuple[np.ndarray, ...]
    scratch: tuple[np.ndarray, ...] = ()


def device_schemes(program: Program, scatter: Scatter) -> list[DeviceScheme]:
    """The plans that fit, the plainest first."""
    found = [segmented(program, scatter)]
    product = factored_out(scatter)
    if product is not None and len(scatter.key) == 1:
        found += _folded(program, scatter, product)
    return found


def segmented(program: Program, scatter: Scatter, *, alone: bool = False) -> DeviceScheme:
    """Rows sorted by place. `alone`: each thread sums whole segments by itself."""
    scatter = in_order(scatter, np.argsort(packed(segment_of(scatter.key)), kind="stable"))
    tables, where, type = Tables(), scatter.update.where, scatter.update.value.type
    columns = {name: tables.add(packed(column)) for name, column in scatter.columns.items()}
    segment = segment_of(scatter.key)
    firsts = np.flatnonzero(np.concatenate(([True], segment[1:] != segment[:-1])))
    ends = np.concatenate((firsts[1:], [scatter.count]))
    keys = [tables.add(packed(axis[firsts])) for axis in scatter.key]
    team = not alone and scatter.count >= _TEAM * len(firsts)
    sum = Variable("plan_sum", type)

    def rows(low: Expression, high: Expression) -> list[Command]:
        n = Variable("plan_n", I64)
        commands, value = row_body(scatter, columns, n, "_row", scatter.update.value)
        add = Assign(sum, Apply(Op.ADD, (sum, value)))
        return [Assign(sum, _zero(type)), Range(n, low, high, 1, (*commands, add), where, cooperative=team)]

    program = replace(program, variables=(*program.variables, sum))
    s, low, high = (Variable(f"plan_{name}", I64) for name in ("s", "low", "high"))
    places = tuple(Variable(f"plan_key{axis}", I64) for axis in range(len(keys)))
    last = [
        *(Let(place, element(table, (s,), I64)) for place, table in zip(places, keys, strict=True)),
        *added_to(scatter.update.buffer, places, sum),
    ]
    parts = -(-(ends - firsts) // _PART)
    bounds = np.concatenate((firsts, [scatter.count]))
    if parts.max() == 1 or not team:
        table = tables.add(packed(bounds))
        body = (*_span(table, s, low, high), *rows(low, high), *last)
        commands = [Range(s, ZERO, Constant(len(firsts), I64), 1, body, where, asserted=True)]
        return DeviceScheme("segmented", replaced(program, scatter, commands, tables), tuple(tables.arrays))
    owner = np.repeat(np.arange(len(firsts)), parts)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(parts) - parts, parts)
    starts = firsts[owner] + place * _PART
    table = tables.add(packed(np.concatenate((starts, [scatter.count]))))
    spans = tables.add(packed(np.concatenate(([0], np.cumsum(parts)))))
    scratch = tables.scratch(np.empty(len(owner), type.value))
    p, m = Variable("plan_p", I64), Variable("plan_m", I64)
    first = Range(
        p,
        ZERO,
        Constant(len(owner), I64),
        1,
        (*_span(table, p, low, high), *rows(low, high), Store(scratch, (p,), sum)),
        where,
        asserted=True,
    )
    add = Assign(sum, Apply(Op.ADD, (sum, Load(scratch, (m,)))))
    body = (
        *_span(spans, s, low, high),
        Assign(sum, _zero(type)),
        Range(m, low, high, 1, (add,), where, cooperative=True),
        *last,
    )
    second = Range(s, ZERO, Constant(len(firsts), I64), 1, body, where, asserted=True)
    whole = replaced(program, scatter, [first, second], tables)
    return DeviceScheme("segmented", whole, tuple(tables.arrays[:-1]), (tables.arrays[-1],))


def _span(bounds: Buffer, index: Variable, low: Variable, high: Variable) -> tuple[Command, ...]:
    after = Apply(Op.ADD, (index, ONE))
    return Let(low, element(bounds, (index,), I64)), Let(high, element(bounds, (after,), I64))


def _folded(program: Program, scatter: Scatter, product: Product) -> list[DeviceScheme]:
    """With a table of summed weights for each place and product. None where weights of one cell have both signs: of a
    product that is not finite they would give NaN, and their sum does not."""
    if product.columns:
        firsts, pair = distinct([scatter.columns[name] for name in product.columns])
    else:
        firsts, pair = np.zeros(1, np.int64), np.zeros(scatter.count, np.int64)
    (key,), type, where = scatter.key, scatter.update.value.type, scatter.update.where
    low, bins = int(key.min()), int(key.max()) - int(key.min()) + 1
    if len(firsts) > min(MOST_PRODUCTS, scatter.count // 2) or len(firsts) * bins > LARGEST_TABLE:
        return []
    weights, sizes = (np.zeros((bins, len(firsts)), np.dtype(type.value)) for _ in range(2))
    np.add.at(weights, (key - low, pair), product.weight)
    np.add.at(sizes, (key - low, pair), abs(product.weight))
    present = np.zeros(weights.shape, bool)
    present[key - low, pair] = True
    if not np.array_equal(abs(weights), sizes) or np.any(weights[present] == 0):
        return []
    tables = Tables()
    columns = {name: tables.add(packed(scatter.columns[name][firsts])) for name in product.columns}
    table = tables.add(weights)
    wanted = reads([product.rest], scatter)
    inner = replace(scatter, lets=tuple(let for let in scatter.lets if let.variable.name in wanted))
    c, q, weight, sum = (
        Variable("plan_c", I64),
        Variable("plan_q", I64),
        Variable("plan_w", type),
        Variable("plan_sum", type),
    )
    commands, value = row_body(inner, columns, q, "_q", product.rest)
    nothing = Apply(Op.EQ, (weight, _zero(type)))
    add = Assign(sum, Apply(Op.ADD, (sum, Select(nothing, _zero(type), Apply(Op.MUL, (weight, value))))))
    row = (Let(weight, Load(table, (c, q))), *commands, add)
    team = len(firsts) >= _TEAM
    place = Apply(Op.ADD, (c, Constant(low, I64))) if low else c
    body = (
        Assign(sum, _zero(type)),
        Range(q, ZERO, Constant(len(firsts), I64), 1, row, where, cooperative=team),
        *added_to(scatter.update.buffer, (place,), sum),
    )
    program = replace(program, variables=(*program.variables, sum))
    commands = [Range(c, ZERO, Constant(bins, I64), 1, body, where, asserted=True)]
    return [DeviceScheme("folded", replaced(program, scatter, commands, tables), tuple(tables.arrays))]


def _zero(type: ScalarType) -> Constant:
    return Constant(0.0 if type.floating else 0, type)
