"""Schedules that put a small buffer between a kernel's loops and memory, and move whole tiles between the two.

`turned`: an operand or result whose neighbours in memory belong to different rows. Read along the row it costs a cache
line for each element; a tile of as many rows as a line has elements costs a line for each line, and is transposed in
registers on its way. `streamed`: results too large to be found in a cache later are written past it, line by line.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.loops.expressions import (
    Apply,
    Buffer,
    Constant,
    Expression,
    Load,
    Op,
    Size,
    Variable,
    cost,
    index_of,
    plus,
    rewritten,
    times,
    walk,
)
from kernelwright.loops.nest import For, Kernel, Let, Local, Move, Statement, Store, Update, statements
from kernelwright.loops.types import ScalarType

LINE_BYTES = 64
TILE_BYTES = 128 * 1024
"""All tiles of a task together: a part of the second-level cache, and safe on a thread's stack."""
STREAM_BYTES = 16 * 1024
"""The line buffers of a task together: they share the first-level cache with the row."""
LINE_ELEMENTS = 1024
"""Elements streamed at once by a kernel that does not reduce."""
COLUMNS = 128
"""Elements along the row in a tile of a kernel that does not reduce."""
LIGHT_WORK = 14
"""Units of work (see `cost`) for an element, up to which memory is what a kernel waits for. With more to compute, plain
stores pass beside it, and the line's way through the buffer is a loss (on Zen 4: softmax and gelu lose a fifth by
streaming, layer norm gains a third)."""
LEAST_ROWS = 4
"""With fewer rows or columns there is nothing to gain by tiles."""


@dataclass(frozen=True)
class Rows:
    """A kernel as rows: the loops over them, and the passes over the row's single dimension."""

    loops: tuple[For, ...]
    body: tuple[Statement, ...]
    row: str
    """The index of the passes' loops."""
    extent: Expression
    whole: bool
    """Whether the passes must see the entire row at once: whether there is more than one, or a reduction."""


@dataclass(frozen=True)
class Block:
    """A part of a loop's range."""

    start: Expression
    stop: Expression
    width: Expression


def turned(kernel: Kernel) -> Kernel:
    """Operands and results that run along another loop than the row go through transposed tiles.

    Where there are none, or a tile of entire rows would be too large, the kernel comes back as it is.
    """
    shape = rows_of(kernel)
    if shape is None:
        return kernel
    crossing = {
        buffer: axis
        for buffer in (*kernel.outputs, *kernel.inputs)
        if (axis := axis_of(buffer, shape)) is not None and accesses(buffer, shape.body)
    }
    if not crossing:
        return kernel
    axis = max(crossing.values(), key=list(crossing.values()).count)
    chosen = [buffer for buffer, its in crossing.items() if its == axis]
    across = next(loop for loop in shape.loops if loop.index == axis)
    if isinstance(across.stop, Constant) and across.stop.value < LEAST_ROWS:
        return kernel
    rows = LINE_BYTES // min(buffer.type.bytes for buffer in chosen)
    columns = _static(shape.extent) if shape.whole else min(COLUMNS, _static(shape.extent) or COLUMNS)
    if columns is None or columns < LEAST_ROWS:
        return kernel
    pitch = columns + LINE_BYTES // 4  # lines one after another must not meet in one set of the cache
    if sum(rows * pitch * buffer.type.bytes for buffer in chosen) > TILE_BYTES:
        return kernel
    tiles = {buffer: Buffer(f"{buffer.name}_tile", buffer.type, (rows, pitch), (pitch, 1)) for buffer in chosen}
    return _tiled(kernel, shape, across, tiles, rows, columns)


def streamed(kernel: Kernel, least_bytes: int) -> Kernel:
    """Results of at least `least_bytes` that lie along the row are written past the caches, where memory limits."""
    shape = rows_of(kernel)
    if shape is None or not least_bytes or _work(shape.body) > LIGHT_WORK:
        return kernel
    extent = _static(shape.extent)
    columns = extent if shape.whole else min(LINE_ELEMENTS, extent or LINE_ELEMENTS)
    chosen = [buffer for buffer in kernel.outputs if _large(buffer, least_bytes) and _along(buffer, shape.row)]
    chosen = [buffer for buffer in chosen if accesses(buffer, shape.body)]
    if not columns or not chosen or columns * sum(buffer.type.bytes for buffer in chosen) > STREAM_BYTES:
        return kernel
    lines = {buffer: Buffer(f"{buffer.name}_line", buffer.type, (columns,), (1,)) for buffer in chosen}
    part, block = blocks(shape.row, shape.extent, columns)
    body: list[Statement] = [Local(line) for line in lines.values()]
    places = {buffer: (less(index_of(shape.row), part.start),) for buffer in lines}
    body += _redirected(_ranged(shape, part), lines, places)
    for buffer, line in lines.items():
        index = _starts(buffer, {shape.row: part.start}, shape.body)
        body.append(Move(buffer, index, line, (ZERO,), (ONE, part.width)))
    return replace(kernel, body=nested([*shape.loops, *([block] if block else [])], tuple(body)))


ZERO = Constant(0, ScalarType.INT64)
ONE = Constant(1, ScalarType.INT64)


def rows_of(kernel: Kernel) -> Rows | None:
    """None where the row has several dimensions, or loops are not plain."""
    loops: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0])
        body = body[0].body
    if not any(isinstance(statement, For) for statement in body):
        if not loops:
            return None
        body = (loops.pop(),)
    passes = [statement for statement in body if isinstance(statement, For)]
    first = passes[0]
    if any(isinstance(inner, For) for loop in passes for inner in loop.body):
        return None
    if any((loop.index, loop.start, loop.stop) != (first.index, ZERO, first.stop) for loop in passes):
        return None
    if any(loop.start != ZERO or loop.grain for loop in loops):
        return None
    whole = len(passes) > 1 or len(body) > 1 or any(isinstance(s, Update) for s in first.body)
    return Rows(tuple(loops), body, first.index, first.stop, whole)


def _static(size: Expression) -> int | None:
    return int(size.value) if isinstance(size, Constant) else None


def _work(body: tuple[Statement, ...]) -> int:
    """Work for each element, in all passes."""
    found = [s for loop in body if isinstance(loop, For) for s in statements(loop.body)]
    return sum(cost(s.value) for s in found if isinstance(s, (Let, Update, Store)))


def accesses(buffer: Buffer, body: tuple[Statement, ...]) -> list[tuple[Expression, ...]]:
    """The indices by which the passes read or write the buffer; one that is the same for the row is none."""
    found: list[tuple[Expression, ...]] = []
    for loop in body:
        if not isinstance(loop, For):
            continue
        for statement in statements(loop.body):
            if isinstance(statement, Store) and statement.buffer == buffer:
                found.append(statement.index)
            if isinstance(statement, (Let, Update, Store)):
                found += [n.index for n in walk(statement.value) if isinstance(n, Load) and n.buffer == buffer]
    return found


def _names(index: tuple[Expression, ...]) -> list[str]:
    return [position.name if isinstance(position, Variable) else "" for position in index]


def axis_of(buffer: Buffer, shape: Rows) -> str | None:
    """The loop along which the buffer's elements are neighbours, if that is not the row's own."""
    found = accesses(buffer, shape.body)
    if not found or any(index != found[0] for index in found):
        return None
    strides = dict(zip(_names(found[0]), buffer.strides, strict=True))
    outer = {loop.index for loop in shape.loops}
    if strides.get(shape.row, 0) in (0, 1):
        return None
    return next((name for name, stride in strides.items() if stride == 1 and name in outer), None)


def _step(buffer: Buffer, shape: Rows) -> Size:
    """The buffer's stride along the row."""
    names = _names(accesses(buffer, shape.body)[0])
    return buffer.strides[names.index(shape.row)]


def _along(buffer: Buffer, row: str) -> bool:
    return bool(buffer.strides) and buffer.strides[-1] == 1


def _large(buffer: Buffer, least_bytes: int) -> bool:
    sizes = [size for size in buffer.shape if isinstance(size, int)]
    return len(sizes) == len(buffer.shape) and math.prod(sizes) * buffer.type.bytes >= least_bytes


def less(value: Expression, start: Expression) -> Expression:
    return value if start == ZERO else Apply(Op.SUB, (value, start))


def blocks(index: str, extent: Expression, size: int) -> tuple[Block, For | None]:
    """A block of the loop, and the loop over blocks; without one where a block holds it all."""
    if isinstance(extent, Constant) and extent.value <= size:
        return Block(ZERO, extent, extent), None
    step = Constant(size, ScalarType.INT64)
    if isinstance(extent, Constant):
        count: Expression = Constant(-(-int(extent.value) // size), ScalarType.INT64)
    else:
        count = Apply(Op.FLOOR_DIV, (plus(extent, Constant(size - 1, ScalarType.INT64)), step))
    start = times(index_of(f"{index}_block"), step)
    stop, width = plus(start, step), step
    if not isinstance(extent, Constant) or extent.value % size:
        stop = Apply(Op.MINIMUM, (extent, stop))
        width = less(stop, start)
    return Block(start, stop, width), For(f"{index}_block", ZERO, count, ())


def _ranged(shape: Rows, part: Block) -> tuple[Statement, ...]:
    return tuple(replace(s, start=part.start, stop=part.stop) if isinstance(s, For) else s for s in shape.body)


def _starts(buffer: Buffer, starts: Mapping[str, Expression], body: tuple[Statement, ...]) -> tuple[Expression, ...]:
    """The index of the first element of a tile."""
    return tuple(
        starts.get(position.name, position) if isinstance(position, Variable) else position
        for position in accesses(buffer, body)[0]
    )


def _redirected(
    body: tuple[Statement, ...],
    tiles: Mapping[Buffer, Buffer],
    places: Mapping[Buffer, tuple[Expression, ...]],
) -> list[Statement]:
    """The statements with what they read and write in memory read and written in tiles."""

    def value(expression: Expression) -> Expression:
        return rewritten(
            expression,
            lambda n: Load(tiles[n.buffer], places[n.buffer]) if isinstance(n, Load) and n.buffer in tiles else None,
        )

    changed: list[Statement] = []
    for statement in body:
        match statement:
            case For():
                changed.append(replace(statement, body=tuple(_redirected(statement.body, tiles, places))))
            case Store(buffer, index, stored):
                target = (tiles[buffer], places[buffer]) if buffer in tiles else (buffer, index)
                changed.append(Store(*target, value(stored)))
            case Let() | Update():
                changed.append(replace(statement, value=value(statement.value)))
            case _:
                changed.append(statement)
    return changed


def nested(loops: list[For], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    return body


def _tiled(kernel: Kernel, shape: Rows, across: For, tiles: Mapping[Buffer, Buffer], rows: int, columns: int) -> Kernel:
    """Loops over tiles of `rows` x `columns`; in each: operands in, the rows one by one, results out."""
    band, row_blocks = blocks(across.index, across.stop, rows)
    part, column_blocks = blocks(shape.row, shape.extent, columns)
    places = {
        buffer: (less(index_of(across.index), band.start), less(index_of(shape.row), part.start)) for buffer in tiles
    }
    starts = {across.index: band.start, shape.row: part.start}
    body: list[Statement] = [Local(tile) for tile in tiles.values()]
    for buffer, tile in tiles.items():
        place, step, pitch = _starts(buffer, starts, shape.body), _step(buffer, shape), tile.strides[0]
        if buffer in kernel.inputs:
            body.append(Move(tile, (ZERO, ZERO), buffer, place, (part.width, band.width), (pitch, step)))
    inner = tuple(_redirected(_ranged(shape, part), tiles, places))
    body.append(replace(across, start=band.start, stop=band.stop, body=inner))
    for buffer, tile in tiles.items():
        place, step, pitch = _starts(buffer, starts, shape.body), _step(buffer, shape), tile.strides[0]
        if buffer in kernel.outputs:
            body.append(Move(buffer, place, tile, (ZERO, ZERO), (band.width, part.width), (step, pitch)))
    both = [block for block in (row_blocks, column_blocks) if block]
    loops = [*(loop for loop in shape.loops if loop is not across), *both]
    if not loops:
        loops = [For("tile", ZERO, ONE, ())]
    return replace(kernel, body=nested(loops, tuple(body)))
