"""A schedule for rows that lie across memory: a band of neighbouring rows is passed over together.

Where the elements of a row are far apart, and those of neighbouring rows side by side, vectors run over the rows: each
value of a row becomes a short buffer with an element for each row of the band, and what is read lies in order.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelwright.loops.expressions import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Expression,
    Load,
    Op,
    Variable,
    index_of,
    plus,
    rewritten,
    times,
)
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Reduction, Statement, Store, Update, neutral
from kernelwright.loops.staging import ONE, ZERO, Block, Rows, accesses, axis_of, blocks, less, nested, rows_of
from kernelwright.loops.types import ScalarType

BAND_BYTES = 128 * 1024
"""What the passes over a band read again: a part of the second-level cache, and safe on a thread's stack."""
WIDEST_BAND = 256
WIDEST_LONE = 1024
"""Of a single pass, which reads nothing again: its sums stay in the first-level cache."""
NARROWEST_BAND = 16
"""A cache line of float32."""
TASKS = 8
"""Into which few rows are cut at least: more than threads, so that they share them evenly."""
LEAST_PART = 64
"""Elements of a row that are worth a part of their own."""
PARTIAL = 8
"""Elements of a row added up in float32 before float64 takes in their sum: what was added one after another would lose
more than torch, which adds in a tree."""


@dataclass(frozen=True)
class _Band:
    rows: Rows
    across: For
    part: Block
    width: int
    columns: dict[str, Buffer]
    """The buffers in place of the row's values."""
    kept: dict[str, Buffer]
    """The buffers of the row's kept elements, by name, widened."""

    @property
    def place(self) -> Expression:
        return less(index_of(self.across.index), self.part.start)

    def read(self, value: Expression) -> Expression:
        """The expression with elements of the buffers in the place of what they hold."""

        def change(node: Expression) -> Expression | None:
            if isinstance(node, Variable) and node.name in self.columns:
                load = Load(self.columns[node.name], (self.place,))
                return load if load.type is node.type else Cast(node.type, load)
            if isinstance(node, Load) and node.buffer.name in self.kept:
                return Load(self.kept[node.buffer.name], (*node.index, self.place))
            return None

        return rewritten(value, change)

    def each(self, *body: Statement) -> For:
        """The statements for each row of the band, which must hold all vectors in flight."""
        few = max(1, self.width // (2 * NARROWEST_BAND)) if self.width < WIDEST_BAND // 2 else 0
        return replace(self.across, start=self.part.start, stop=self.part.stop, body=body, interleave=few)

    def put(self, buffer: Buffer, value: Expression) -> Store:
        return Store(buffer, (self.place,), value)


def by_columns(kernel: Kernel, *, spilling: bool = False) -> Kernel:
    """Rows across memory in bands. Where there are none, or vectors along them fit less well, the kernel comes back as
    it is; and so where a band would not stay in the cache from pass to pass, unless `spilling`."""
    rows = rows_of(kernel)
    across = _across(kernel, rows)
    width = _width(kernel, rows, across, spilling) if rows and across else None
    if rows is None or across is None or width is None:
        return kernel
    band, loops = _band(rows, across, width)
    return replace(kernel, body=nested(loops, tuple(_banded(band, rows.body, lambda loop: _pass(band, loop)))))


def by_parts(kernel: Kernel, grain_elements: int) -> Kernel:
    """Few rows across memory that are only reduced: parts of them are passed over by themselves, in bands so wide that
    memory is read in order, and what they come to is joined last.

    The kernel comes back as it is where sizes are open, where there are rows enough for tasks as wide, or passes that
    need more than elements.
    """
    rows = rows_of(kernel)
    across = _across(kernel, rows)
    if rows is None or across is None:
        return kernel
    place = next(place for place, statement in enumerate(rows.body) if isinstance(statement, For))
    before, loop, after = rows.body[:place], rows.body[place], rows.body[place + 1 :]
    assert isinstance(loop, For)
    alone = all(isinstance(s, Declare) for s in before) and not any(isinstance(s, (For, Local)) for s in after)
    sizes = [each.stop.value for each in (*rows.loops, loop) if isinstance(each.stop, Constant)]
    if not alone or len(sizes) != len(rows.loops) + 1 or not all(isinstance(s, (Let, Update)) for s in loop.body):
        return kernel
    if not all(sizes):
        return kernel
    *_, length = map(int, sizes)
    count = math.prod(int(size) for size in sizes[:-1])
    updates = [s for s in loop.body if isinstance(s, Update)]
    types = {s.variable.name: _column_type(s.variable, s.reduction) for s in updates}
    bands = -(-_size(across) // WIDEST_LONE)
    parts = min(TASKS, length // LEAST_PART, BAND_BYTES // (count * sum(type.bytes for type in types.values())))
    if _size(across) < NARROWEST_BAND or bands * count // _size(across) >= TASKS or parts < 2:
        return kernel
    step = -(-length // parts // PARTIAL) * PARTIAL
    parts = -(-length // step)
    width = -(-_size(across) // bands // NARROWEST_BAND) * NARROWEST_BAND
    shape = (parts, *(_size(each) for each in rows.loops))
    strides = tuple(math.prod(shape[position + 1 :]) for position in range(len(shape)))
    joined = {name: Buffer(f"{name}_parts", type, shape, strides) for name, type in types.items()}
    index = tuple(index_of(each.index) for each in rows.loops)

    summing, loops = _band(replace(rows, body=rows.body[: place + 1]), across, width)
    first = _banded(summing, (*before, _part_of(loop, length, step)), lambda loop: _pass(summing, loop))
    for name, buffer in joined.items():
        total = Load(summing.columns[name], (summing.place,))
        first.append(summing.each(Store(buffer, (index_of("part"), *index), total)))
    grain = max(1, grain_elements // (step * count))
    made = For("part", ZERO, Constant(parts, ScalarType.INT64), nested(loops, tuple(first)), grain)
    band, loops = _band(rows, across, width)

    def join(_: For) -> list[Statement]:
        taken: list[Statement] = []
        for s in updates:
            column, buffer = band.columns[s.variable.name], joined[s.variable.name]
            values = (Load(column, (band.place,)), Load(buffer, (index_of("part"), *index)))
            taken.append(band.put(column, Apply(_TAKING_IN[s.reduction], values)))
        return [For("part", ZERO, Constant(parts, ScalarType.INT64), (band.each(*taken),))]

    last = nested(loops, tuple(_banded(band, rows.body, join)))
    return replace(kernel, body=(*map(Local, joined.values()), made, *last))


def _part_of(loop: For, length: int, step: int) -> For:
    """The pass over the elements of the part: `step` from there on, and up to `length`."""
    start = times(index_of("part"), Constant(step, ScalarType.INT64))
    stop: Expression = Constant(step, ScalarType.INT64)
    if length % step:
        stop = Apply(Op.MINIMUM, (stop, less(Constant(length, ScalarType.INT64), start)))
    shifted = plus(start, index_of(loop.index))

    def moved(node: Expression) -> Expression | None:
        return shifted if node == index_of(loop.index) else None

    body = tuple(replace(s, value=rewritten(s.value, moved)) for s in loop.body if isinstance(s, (Let, Update)))
    return replace(loop, stop=stop, body=body)


def _size(loop: For) -> int:
    assert isinstance(loop.stop, Constant)
    return int(loop.stop.value)


def _across(kernel: Kernel, rows: Rows | None) -> For | None:
    """The loop over rows whose elements are neighbours; None where there are none, or vectors along them fit less."""
    if rows is None or not any(isinstance(s, Declare) for s in rows.body):
        return None
    touched = [buffer for buffer in (*kernel.outputs, *kernel.inputs) if accesses(buffer, rows.body)]
    axes = {axis for buffer in touched if (axis := axis_of(buffer, rows)) is not None}
    if len(axes) != 1 or any(not _fits(buffer, rows, next(iter(axes))) for buffer in touched):
        return None
    return next(loop for loop in rows.loops if loop.index in axes)


def _fits(buffer: Buffer, rows: Rows, axis: str) -> bool:
    """Whether what the passes read or write lies side by side for the rows of a band, or is the same for all."""
    for index in accesses(buffer, rows.body):
        moving = {
            position.name: stride
            for position, stride in zip(index, buffer.strides, strict=True)
            if isinstance(position, Variable) and stride != 0
        }
        if moving.get(axis, 1) != 1:
            return False
    return True


def _width(kernel: Kernel, rows: Rows, across: For, spilling: bool) -> int | None:
    """Rows of a band; None where there are too few, or a band may not spill out of the cache and would."""
    if isinstance(across.stop, Constant) and across.stop.value < NARROWEST_BAND:
        return None
    count = int(across.stop.value) if isinstance(across.stop, Constant) else WIDEST_BAND * TASKS
    for loop in rows.loops:
        if loop is not across:
            count *= int(loop.stop.value) if isinstance(loop.stop, Constant) else TASKS
    width = max(NARROWEST_BAND, min(WIDEST_BAND, -(-count // TASKS)))
    if not spilling and sum(isinstance(statement, For) for statement in rows.body) > 1:
        length = int(rows.extent.value) if isinstance(rows.extent, Constant) else BAND_BYTES
        locals_ = [statement.buffer for statement in rows.body if isinstance(statement, Local)]
        read = [buffer for buffer in (*kernel.inputs, *locals_) if accesses(buffer, rows.body)]
        width = min(width, BAND_BYTES // (length * max(1, sum(buffer.type.bytes for buffer in read))))
    return width // NARROWEST_BAND * NARROWEST_BAND or None


def _band(rows: Rows, across: For, width: int) -> tuple[_Band, list[For]]:
    """A band of so many rows, and the loops over bands."""
    part, block = blocks(across.index, across.stop, width)
    columns: dict[str, Buffer] = {}
    kept: dict[str, Buffer] = {}
    for statement in rows.body:
        match statement:
            case Local(buffer):
                shape, strides = (*buffer.shape, width), (*(int(s) * width for s in buffer.strides), 1)
                kept[buffer.name] = replace(buffer, shape=shape, strides=strides)
            case Declare(variable, reduction):
                type = _column_type(variable, reduction)
                columns[variable.name] = Buffer(f"{variable.name}_column", type, (width,), (1,))
            case Let(variable):
                columns[variable.name] = Buffer(f"{variable.name}_column", variable.type, (width,), (1,))
            case _:
                pass
    loops = [*(loop for loop in rows.loops if loop is not across), *([block] if block else [])]
    return _Band(rows, across, part, width, columns, kept), loops or [For("band", ZERO, ONE, ())]


def _banded(
    band: _Band, statements: tuple[Statement, ...], passed: Callable[[For], list[Statement]]
) -> list[Statement]:
    """Statements of a row for the rows of the band, its passes as `passed` makes them."""
    body: list[Statement] = [Local(buffer) for buffer in (*band.columns.values(), *band.kept.values())]
    for statement in statements:
        match statement:
            case Declare(variable, reduction):
                column = band.columns[variable.name]
                body.append(band.each(band.put(column, neutral(reduction, column.type))))
            case Let(variable, value):
                body.append(band.each(band.put(band.columns[variable.name], band.read(value))))
            case Store(buffer, index, value):
                body.append(band.each(Store(buffer, index, band.read(value))))
            case For():
                body += passed(statement)
            case _:
                pass
    return body


def _column_type(variable: Variable, reduction: Reduction) -> ScalarType:
    return ScalarType.FLOAT64 if _split(variable, reduction) else variable.type


def _split(variable: Variable, reduction: Reduction) -> bool:
    return reduction is Reduction.SUM and variable.type is ScalarType.FLOAT32


def _pass(band: _Band, loop: For) -> list[Statement]:
    """A pass over the row: sums in parts of `PARTIAL` elements."""
    partial = {
        s.variable.name: Buffer(f"{s.variable.name}_partial", s.variable.type, (band.width,), (1,))
        for s in loop.body
        if isinstance(s, Update) and _split(s.variable, s.reduction)
    }
    inner: list[Statement] = []
    for statement in loop.body:
        match statement:
            case Let(variable, value):
                inner.append(Let(variable, band.read(value)))
            case Store(buffer, index, value) if buffer.name in band.kept:
                inner.append(Store(band.kept[buffer.name], (*index, band.place), band.read(value)))
            case Store(buffer, index, value):
                inner.append(Store(buffer, index, band.read(value)))
            case Update(variable, reduction, value):
                column = partial.get(variable.name, band.columns[variable.name])
                op = _TAKING_IN[reduction]
                inner.append(band.put(column, Apply(op, (Load(column, (band.place,)), band.read(value)))))
            case _:
                raise ValueError(f"a pass over a row holds {statement}")
    if not partial:
        return [replace(loop, body=(band.each(*inner),))]
    part, block = blocks(loop.index, loop.stop, PARTIAL)
    zeros = [band.put(column, Constant(0, column.type)) for column in partial.values()]
    ends: list[Statement] = []
    for name, column in partial.items():
        total, value = band.columns[name], Load(column, (band.place,))
        wide = (Load(total, (band.place,)), Cast(total.type, value))
        ends.append(band.put(total, Apply(Op.ADD, wide)))
    own = replace(loop, start=part.start, stop=part.stop, body=(band.each(*inner),))
    body = (band.each(*zeros), own, band.each(*ends))
    locals_ = [Local(column) for column in partial.values()]
    return [*locals_, *([replace(block, body=body)] if block else body)]


_TAKING_IN = {
    Reduction.SUM: Op.ADD,
    Reduction.MAXIMUM: Op.MAXIMUM,
    Reduction.MINIMUM: Op.MINIMUM,
    Reduction.LARGEST: Op.MAXIMUM,
}
