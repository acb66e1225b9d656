"""Schedules: functions from a kernel to a kernel that computes the same in another order or place.

`scheduled` applies them as a Plan says; the numbers of a Plan are what a tuner varies.
"""

import math
from dataclasses import dataclass, replace

from kernelwright.loops.columns import by_columns, by_parts
from kernelwright.loops.expressions import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Expression,
    Load,
    Op,
    Variable,
    cost,
    index_of,
    plus,
    rewritten,
    times,
    variables,
)
from kernelwright.loops.nest import (
    Declare,
    For,
    Kernel,
    Let,
    Local,
    Reduction,
    Statement,
    Store,
    Update,
    check,
    reads,
    statements,
)
from kernelwright.loops.staging import less, streamed, turned
from kernelwright.loops.types import ScalarType

# Below this much work (see `cost`) a value is computed again rather than written to the row's buffer and read back.
KEEP_FROM_COST = 8
# Rows up to this size are kept: a part of the smallest first-level cache we meet (32 kB), and safe on a thread's stack.
ROW_BYTES = 24 * 1024
# What a size that is known only at the call is taken for when tasks are weighed.
USUAL_SIZE = 512
# Into which a lone row is cut: more than threads, so that they share them evenly.
PARTS = 64
# Elements of a row added up in float32 before float64 takes in their sum.
SUM_ELEMENTS = 4096
# Work for an element (see `cost`) up to which its sums are float64.
WIDE_WORK = 8
# An inner loop of so many elements has a sum of its own, which float64 takes in.
RUN_ELEMENTS = 64
# Of float32 in the widest vector there is.
VECTOR_ELEMENTS = 16
# Elements that make a thread worth waking: about 10 us of simple work (docs/design/threads.md).
GRAIN_ELEMENTS = 16384


@dataclass(frozen=True)
class Plan:
    """The choices for one kernel."""

    interleave: int = 4
    """Vectors in flight in the innermost loops."""
    keep_row: bool = True
    """Costly values of a row wait in a buffer for the next pass (one pass over memory) or are computed again."""
    keep_from: int = KEEP_FROM_COST
    """Work (see `cost`) from which a value is costly; from 1 on all that a later pass reads are kept."""
    grain_elements: int = GRAIN_ELEMENTS
    """Elements of the domain worth a thread."""
    block: int = 4096
    """Elements into which a long innermost loop without reductions is cut, so that few long rows still make many
    tasks."""
    tiles: bool = True
    """Whether rows that lie across memory are passed over in bands, or go through transposed tiles."""
    stream_bytes: int = 8 << 20
    """Results from this size on are written past the caches; 0: none."""


def scheduled(kernel: Kernel, plan: Plan) -> Kernel:
    """`kernel` with the plan's choices made: rows kept, long rows cut, tasks merged and given to threads, vectors."""
    kernel = spread(kernel, plan.grain_elements)
    plain = kernel
    if plan.keep_row:
        kernel = keep_row(kernel, from_cost=plan.keep_from)
    if plan.tiles:
        kernel = _across_memory(kernel, plain, plan.grain_elements)
    kernel = streamed(kernel, plan.stream_bytes)
    loops = loops_of_nest(kernel)
    tasks = len(loops)
    if loops and _innermost(loops[-1]) and len(loops) > 1:
        # The innermost loop is the task's own; a long one makes several tasks.
        elements = min(plan.block, _elements(loops[-1]))
        kernel = split(kernel, loops[-1].index, plan.block)
        tasks = len(loops_of_nest(kernel)) - 1
    elif loops:
        elements = sum(_elements(statement) for statement in loops[-1].body) or 1
    else:
        elements = 1
    kernel = parallelise(kernel, tasks, max(1, plan.grain_elements // elements))
    kernel = in_parts(kernel, plan.interleave * VECTOR_ELEMENTS)
    kernel = vectorise(kernel, plan.interleave)
    check(kernel)
    return kernel


def _across_memory(kernel: Kernel, plain: Kernel, grain_elements: int) -> Kernel:
    """Rows across memory in bands, few of them in parts too, or in tiles. Of rows too long for these nothing is kept
    (`plain`), and each pass reads its bands from memory again: still whole lines, where a row by itself would take one
    element of each."""
    parted = by_parts(kernel, grain_elements)
    if parted is not kernel:
        return parted
    banded = turned(by_columns(kernel))
    if banded is not kernel:
        return banded
    spilled = by_columns(plain, spilling=True)
    return kernel if spilled is plain else spilled


# ---- questions --------------------------------------------------------------------------------------------------


def loops_of_nest(kernel: Kernel) -> list[For]:
    """The perfectly nested loops from the outside: each but the last holds the next and nothing else."""
    found: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        found.append(body[0])
        body = body[0].body
    return found


def extent(loop: For) -> Expression:
    """How often the loop runs, for loops from 0."""
    if loop.start != Constant(0, ScalarType.INT64):
        raise ValueError(f"the loop over {loop.index} does not start at 0")
    return loop.stop


def _innermost(loop: For) -> bool:
    return not any(isinstance(statement, For) for statement in loop.body)


def _elements(statement: Statement) -> int:
    """How many innermost iterations a statement runs, about."""
    if not isinstance(statement, For):
        return 0
    size = int(statement.stop.value) if isinstance(statement.stop, Constant) else USUAL_SIZE
    return size * (sum(_elements(inner) for inner in statement.body) or 1)


# ---- schedules --------------------------------------------------------------------------------------------------


def split(kernel: Kernel, index: str, size: int) -> Kernel:
    """The loop over `index` in blocks of `size`: an outer loop over blocks and an inner one within a block.

    A loop that is static and not longer than a block stays as it is.
    """

    def change(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        return tuple(
            statement
            if not isinstance(statement, For)
            else _in_blocks(statement, size)
            if statement.index == index
            else replace(statement, body=change(statement.body))
            for statement in body
        )

    return replace(kernel, body=change(kernel.body))


def _in_blocks(loop: For, size: int) -> For:
    stop = extent(loop)
    if isinstance(stop, Constant) and stop.value <= size:
        return loop
    step = Constant(size, ScalarType.INT64)
    if isinstance(stop, Constant):
        blocks: Expression = Constant(-(-int(stop.value) // size), ScalarType.INT64)
    else:
        blocks = Apply(Op.FLOOR_DIV, (plus(stop, Constant(size - 1, ScalarType.INT64)), step))
    start = times(index_of(f"{loop.index}_block"), step)
    inner = replace(loop, start=start, stop=Apply(Op.MINIMUM, (stop, plus(start, step))))
    return For(f"{loop.index}_block", Constant(0, ScalarType.INT64), blocks, (inner,))


def spread(kernel: Kernel, grain_elements: int) -> Kernel:
    """A lone row that is only reduced, in parts: each thread's partial results wait in a buffer and are joined last.

    A kernel with several rows or passes, or whose pass needs values from before it, comes back as it is.
    """
    loops = [statement for statement in kernel.body if isinstance(statement, For)]
    if len(loops) != 1 or len(kernel.body) == 1 or any(isinstance(s, (For, Store)) for s in loops[0].body):
        return kernel
    row = loops[0]
    place = kernel.body.index(row)
    outside = {s.variable.name for s in kernel.body[:place] if isinstance(s, Let)}
    updates = [s for s in row.body if isinstance(s, Update)]
    if not updates or any(reads(statement) & outside for statement in row.body):
        return kernel
    if isinstance(row.stop, Constant) and row.stop.value < 2 * PARTS:
        return kernel
    partials = {s.variable.name: Buffer(f"{s.variable.name}_partial", s.variable.type, (PARTS,), (1,)) for s in updates}
    count = Constant(PARTS, ScalarType.INT64)
    if isinstance(row.stop, Constant):
        size: Expression = Constant(-(-int(row.stop.value) // PARTS), ScalarType.INT64)
    else:
        size = Apply(Op.FLOOR_DIV, (plus(row.stop, Constant(PARTS - 1, ScalarType.INT64)), count))
    start = times(index_of("part"), size)
    inside = [Declare(s.variable, s.reduction) for s in updates]
    ends = [Store(partials[s.variable.name], (index_of("part"),), s.variable) for s in updates]
    own = replace(row, start=start, stop=Apply(Op.MINIMUM, (row.stop, plus(start, size))))
    elements = max(1, (int(row.stop.value) if isinstance(row.stop, Constant) else USUAL_SIZE * PARTS) // PARTS)
    parts = For("part", Constant(0, ScalarType.INT64), count, (*inside, own, *ends), max(1, grain_elements // elements))
    joined = For(
        "joined",
        Constant(0, ScalarType.INT64),
        count,
        tuple(Update(s.variable, s.reduction, Load(partials[s.variable.name], (index_of("joined"),))) for s in updates),
    )
    names = {s.variable.name for s in updates}
    declared = [s for s in kernel.body[:place] if isinstance(s, Declare) and s.variable.name in names]
    before = [s for s in kernel.body[:place] if s not in declared]
    locals_ = [Local(buffer) for buffer in partials.values()]
    return replace(kernel, body=(*before, *locals_, parts, *declared, joined, *kernel.body[place + 1 :]))


def parallelise(kernel: Kernel, count: int, grain: int) -> Kernel:
    """The `count` outermost loops of the nest merged into one parallel loop, `grain` iterations worth a thread."""
    nest = loops_of_nest(kernel)[:count]
    if not nest:
        return kernel
    body = nest[-1].body
    if len(nest) == 1:
        return replace(kernel, body=(replace(nest[0], grain=grain),))
    total: Expression = Constant(1, ScalarType.INT64)
    lets: list[Statement] = []
    # From the inside: index = (task / product of the inner extents) % extent.
    for position, loop in reversed(list(enumerate(nest))):
        value: Expression = index_of("task")
        if total != Constant(1, ScalarType.INT64):
            value = Apply(Op.FLOOR_DIV, (value, total))
        if position:
            value = Apply(Op.MOD, (value, extent(loop)))
        lets.append(Let(index_of(loop.index), value))
        total = times(extent(loop), total)
    tasks = For("task", Constant(0, ScalarType.INT64), total, (*reversed(lets), *body), grain=grain)
    return replace(kernel, body=(tasks,))


def in_parts(kernel: Kernel, lanes: int) -> Kernel:
    """Float32 sums that lose no more than torch's, which adds in a tree: in float64 where memory is waited for, long
    ones in parts, and what `lanes` partial sums leave over by itself: it is added one by one, to little instead of to
    nearly the whole."""
    return replace(kernel, body=_in_parts(kernel.body, lanes))


def _in_parts(body: tuple[Statement, ...], lanes: int) -> tuple[Statement, ...]:
    changed: list[Statement] = []
    declared: dict[str, Declare] = {}
    taken: dict[Expression, Expression] = {}  # what converts a sum, and the float64 that it was rounded from
    for statement in body:
        if isinstance(statement, Declare) and _is_float_sum(statement):
            declared[statement.variable.name] = statement
        if isinstance(statement, Let):
            statement = replace(statement, value=rewritten(statement.value, taken.get))
        if not isinstance(statement, For):
            changed.append(statement)
            continue
        inside = {s.variable.name for s in statements((statement,)) if isinstance(s, Update)}
        sums = {name: Variable(f"{name}_total", ScalarType.FLOAT64) for name in declared if name in inside}
        few = _elements_at_most(statement, SUM_ELEMENTS) and not _of_runs(statement)
        if not sums or (few and not _light(statement) and not _leaves_over(statement, lanes)):
            changed.append(replace(statement, body=_in_parts(statement.body, lanes)))
            continue
        changed = [s for s in changed if not (isinstance(s, Declare) and s.variable.name in sums)]
        changed += [Declare(total, Reduction.SUM) for total in sums.values()]
        changed += [_summed_wide(statement, sums)] if _light(statement) else _summed_in_parts(statement, sums, lanes)
        changed += [Let(declared[name].variable, Cast(ScalarType.FLOAT32, total)) for name, total in sums.items()]
        taken |= {Cast(ScalarType.FLOAT64, declared[name].variable): total for name, total in sums.items()}
    return tuple(changed)


def _is_float_sum(declared: Declare) -> bool:
    return declared.reduction is Reduction.SUM and declared.variable.type is ScalarType.FLOAT32


def _elements_at_most(loop: For, count: int) -> bool:
    """Whether it is certain that the loop runs so few innermost iterations."""
    loops = [s for s in statements((loop,)) if isinstance(s, For)]
    static = all(isinstance(end, Constant) for each in loops for end in (each.start, each.stop))
    return static and _elements(loop) <= count


def _of_runs(loop: For) -> bool:
    """Whether it is made of loops that are long enough for sums of their own: what a vector leaves over is added one by
    one, run after run."""
    inner = [s for s in statements(loop.body) if isinstance(s, For) and _innermost(s)]
    return bool(inner) and all(isinstance(s.stop, Constant) and s.stop.value >= RUN_ELEMENTS for s in inner)


def _leaves_over(loop: For, lanes: int) -> bool:
    """Whether so many partial sums leave something over after two rounds: before, a loop more would cost a tenth."""
    if not _innermost(loop) or not isinstance(loop.start, Constant) or not isinstance(loop.stop, Constant):
        return False
    length = loop.stop.value - loop.start.value
    return length > 2 * lanes and length % lanes != 0


def _light(loop: For) -> bool:
    """Whether memory is what the loop waits for, so that sums in float64 cost nothing."""
    leaf = [s for s in statements(loop.body) if isinstance(s, (Let, Update, Store))]
    return sum(cost(s.value) for s in leaf) <= WIDE_WORK


def _summed_wide(loop: For, totals: dict[str, Variable]) -> For:
    """The loop with its sums taken in by the totals, element by element."""
    body = tuple(
        replace(s, variable=totals[s.variable.name], value=Cast(ScalarType.FLOAT64, s.value))
        if isinstance(s, Update) and s.variable.name in totals
        else _summed_wide(s, totals)
        if isinstance(s, For)
        else s
        for s in loop.body
    )
    return replace(loop, body=body)


def _summed_in_parts(loop: For, totals: dict[str, Variable], lanes: int) -> list[Statement]:
    """The loop with sums of up to SUM_ELEMENTS that the totals take in."""
    if not _innermost(loop):
        inner = [_summed_in_parts(s, totals, lanes) if isinstance(s, For) else [s] for s in loop.body]
        return [replace(loop, body=tuple(statement for part in inner for statement in part))]
    if not _elements_at_most(loop, SUM_ELEMENTS):
        return [_long_in_parts(loop, totals)]
    if not _leaves_over(loop, lanes):
        return _part(loop, totals, "part")
    assert isinstance(loop.stop, Constant) and isinstance(loop.start, Constant)
    whole = Constant(loop.stop.value - (loop.stop.value - loop.start.value) % lanes, ScalarType.INT64)
    rest = replace(loop, start=whole, interleave=1)  # it would not fill several vectors
    return [*_part(replace(loop, stop=whole), totals, "part"), *_part(rest, totals, "rest")]


def _part(loop: For, totals: dict[str, Variable], word: str) -> list[Statement]:
    """An innermost loop with float32 sums of its own, called by `word`, and the totals that take them in."""
    parts = {name: Variable(f"{name}_{word}", ScalarType.FLOAT32) for name in totals}
    leaf = tuple(
        replace(s, variable=parts[s.variable.name]) if isinstance(s, Update) and s.variable.name in parts else s
        for s in loop.body
    )
    begins = [Declare(part, Reduction.SUM) for part in parts.values()]
    ends = [Update(totals[name], Reduction.SUM, Cast(ScalarType.FLOAT64, part)) for name, part in parts.items()]
    return [*begins, replace(loop, body=leaf), *ends]


def _long_in_parts(loop: For, totals: dict[str, Variable]) -> For:
    """An innermost loop in parts of SUM_ELEMENTS."""
    step = Constant(SUM_ELEMENTS, ScalarType.INT64)
    length = less(loop.stop, loop.start)
    if isinstance(length, Constant):
        count: Expression = Constant(-(-int(length.value) // SUM_ELEMENTS), ScalarType.INT64)
    else:
        count = Apply(Op.FLOOR_DIV, (plus(length, Constant(SUM_ELEMENTS - 1, ScalarType.INT64)), step))
    start = plus(loop.start, times(index_of(f"{loop.index}_part"), step))
    own = replace(loop, start=start, stop=Apply(Op.MINIMUM, (loop.stop, plus(start, step))))
    zero = Constant(0, ScalarType.INT64)
    return For(f"{loop.index}_part", zero, count, tuple(_part(own, totals, "part")))


def vectorise(kernel: Kernel, interleave: int) -> Kernel:
    """Every innermost loop in vectors, `interleave` of them in flight where it does not say how many: one, where the
    loop is so short that what several leave over, one element at a time, takes most of its time. Loops of fewer than 4
    steps are unrolled."""

    def change(statement: Statement) -> Statement:
        if not isinstance(statement, For):
            return statement
        if any(isinstance(inner, For) for inner in statement.body):
            return replace(statement, body=tuple(change(inner) for inner in statement.body))
        if isinstance(statement.stop, Constant) and statement.stop.value < 4 and not statement.grain:
            return replace(statement, unroll=int(statement.stop.value))
        few = _elements_at_most(statement, 2 * interleave * VECTOR_ELEMENTS - 1)
        return replace(statement, interleave=statement.interleave or (1 if few else interleave))

    return replace(kernel, body=tuple(change(statement) for statement in kernel.body))


def keep_row(kernel: Kernel, row_bytes: int = ROW_BYTES, from_cost: int = KEEP_FROM_COST) -> Kernel:
    """Costly values that a later pass over the row would compute again wait in a stack buffer instead.

    With it a kernel reads its inputs from memory once, however many passes it makes. Where a row is dynamic or larger
    than `row_bytes` in all, the kernel comes back as it is.
    """

    def change(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        passes = [statement for statement in body if isinstance(statement, For)]
        if len(passes) == 1:
            return tuple(replace(s, body=change(s.body)) if isinstance(s, For) else s for s in body)
        return _keep(body, row_bytes, from_cost) if len(passes) > 1 else body

    return replace(kernel, body=change(kernel.body))


def _keep(body: tuple[Statement, ...], row_bytes: int, from_cost: int) -> tuple[Statement, ...]:
    """`keep_row` for the statements of a row, whose loops are the passes."""
    nests = [_chain(statement) for statement in body if isinstance(statement, For)]
    shape = tuple(loop.stop for loop in nests[0])
    sizes = [size.value for size in shape if isinstance(size, Constant)]
    if len(sizes) != len(shape) or any(tuple(loop.stop for loop in nest) != shape for nest in nests):
        return body
    leaves = [nest[-1].body for nest in nests]
    kept = _kept(leaves, from_cost)
    elements = math.prod(int(size) for size in sizes)
    if not kept or sum(elements * variable.type.bytes for variable in kept.values()) > row_bytes:
        return body
    index = tuple(index_of(loop.index) for loop in nests[0])
    strides = tuple(math.prod(int(size) for size in sizes[position + 1 :]) for position in range(len(sizes)))
    buffers = {
        name: Buffer(f"{name}_row", variable.type, tuple(int(size) for size in sizes), strides)
        for name, variable in kept.items()
    }
    written: set[str] = set()
    changed: list[Statement] = [Local(buffer) for buffer in buffers.values()]
    for statement in body:
        if isinstance(statement, For):
            nest = _chain(statement)
            changed.append(_rebuilt(nest, _kept_leaf(nest[-1].body, buffers, index, written)))
        else:
            changed.append(statement)
    return tuple(changed)


def _chain(loop: For) -> list[For]:
    """The loop and those perfectly nested in it."""
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(inner := chain[-1].body[0], For):
        chain.append(inner)
    return chain


def _rebuilt(nest: list[For], leaf: tuple[Statement, ...]) -> For:
    loop = replace(nest[-1], body=leaf)
    for outer in reversed(nest[:-1]):
        loop = replace(outer, body=(loop,))
    return loop


def _kept(leaves: list[tuple[Statement, ...]], from_cost: int) -> dict[str, Variable]:
    """The values worth keeping: costly ones that a later pass needs, seen from what that pass stores and sums."""
    earlier: dict[str, Expression] = {}
    kept: dict[str, Variable] = {}
    for leaf in leaves:
        values = {s.variable.name: s.value for s in leaf if isinstance(s, Let)}
        waiting = [name for s in leaf if not isinstance(s, Let) for name in reads(s)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen or name not in values:
                continue
            seen.add(name)
            if name in earlier and _whole_cost(name, values, set()) >= from_cost:
                kept[name] = Variable(name, values[name].type)
            else:
                waiting += variables(values[name])
        earlier |= values
    return kept


def _whole_cost(name: str, values: dict[str, Expression], seen: set[str]) -> int:
    """Work of computing a value from memory."""
    if name in seen or name not in values:
        return 0
    seen.add(name)
    return cost(values[name]) + sum(_whole_cost(used, values, seen) for used in variables(values[name]))


def _kept_leaf(
    leaf: tuple[Statement, ...], buffers: dict[str, Buffer], index: tuple[Expression, ...], written: set[str]
) -> tuple[Statement, ...]:
    """A pass's innermost body: the first pass that has a kept value writes it, later ones read it."""
    body: list[Statement] = []
    for statement in leaf:
        if isinstance(statement, Let) and (buffer := buffers.get(statement.variable.name)):
            if buffer.name in written:
                body.append(Let(statement.variable, Load(buffer, index)))
            else:
                body += [statement, Store(buffer, index, statement.variable)]
                written.add(buffer.name)
        else:
            body.append(statement)
    return _without_dead(tuple(body))


def _without_dead(leaf: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The body without values nobody reads."""
    live: set[str] = set()
    body: list[Statement] = []
    for statement in reversed(leaf):
        if isinstance(statement, (Let, Declare)) and statement.variable.name not in live:
            continue
        live |= reads(statement)
        if isinstance(statement, Update):
            live.add(statement.variable.name)
        body.append(statement)
    return tuple(reversed(body))
