"""A schedule for rows that lie across memory: a band of neighbouring rows is passed over together.

Where the elements of a row are far apart, and those of neighbouring rows side by side, vectors run over the rows: each
value of a row becomes a short buffer with an element for each row of the band, and what is read lies in order.
"""

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
    rewritten,
)
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Reduction, Statement, Store, Update, neutral
from kernelwright.loops.staging import ONE, ZERO, Block, Rows, accesses, axis_of, blocks, less, nested, rows_of
from kernelwright.loops.types import ScalarType

BAND_BYTES = 128 * 1024
"""What the passes over a band read again: a part of the second-level cache, and safe on a thread's stack."""
WIDEST_BAND = 256
NARROWEST_BAND = 16
"""A cache line of float32."""
TASKS = 8
"""Into which few rows are cut at least: more than threads, so that they share them evenly."""
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
    if rows is None or not any(isinstance(s, Declare) for s in rows.body):
        return kernel
    touched = [buffer for buffer in (*kernel.outputs, *kernel.inputs) if accesses(buffer, rows.body)]
    axes = {axis for buffer in touched if (axis := axis_of(buffer, rows)) is not None}
    if len(axes) != 1 or any(not _fits(buffer, rows, next(iter(axes))) for buffer in touched):
        return kernel
    across = next(loop for loop in rows.loops if loop.index in axes)
    width = _width(kernel, rows, across, spilling)
    if width is None:
        return kernel
    part, block = blocks(across.index, across.stop, width)
    body = _banded(rows, across, part, width)
    loops = [*(loop for loop in rows.loops if loop is not across), *([block] if block else [])]
    return replace(kernel, body=nested(loops or [For("band", ZERO, ONE, ())], body))


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


def _banded(rows: Rows, across: For, part: Block, width: int) -> tuple[Statement, ...]:
    columns: dict[str, Buffer] = {}
    kept: dict[str, Buffer] = {}
    for statement in rows.body:
        match statement:
            case Local(buffer):
                shape, strides = (*buffer.shape, width), (*(int(s) * width for s in buffer.strides), 1)
                kept[buffer.name] = replace(buffer, shape=shape, strides=strides)
            case Declare(variable, reduction):
                type = ScalarType.FLOAT64 if _split(variable, reduction) else variable.type
                columns[variable.name] = Buffer(f"{variable.name}_column", type, (width,), (1,))
            case Let(variable):
                columns[variable.name] = Buffer(f"{variable.name}_column", variable.type, (width,), (1,))
            case _:
                pass
    band = _Band(rows, across, part, width, columns, kept)
    body: list[Statement] = [Local(buffer) for buffer in (*columns.values(), *kept.values())]
    for statement in rows.body:
        match statement:
            case Declare(variable, reduction):
                column = columns[variable.name]
                body.append(band.each(band.put(column, neutral(reduction, column.type))))
            case Let(variable, value):
                body.append(band.each(band.put(columns[variable.name], band.read(value))))
            case Store(buffer, index, value):
                body.append(band.each(Store(buffer, index, band.read(value))))
            case For():
                body += _pass(band, statement)
            case _:
                pass
    return tuple(body)


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
