"""Makes tensor instructions of the products of 8 x 8 matrices: a pass over PTX.

cuda.hpp leaves each product as one line that no assembler knows, `simt.product.KIND`. A tensor core multiplies sixteen
rows, in 16 bits over sixteen columns of the first operand: so two products with one second operand become one
instruction, and two that add up, as a GEMM's steps do, one over both their columns.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.simt import ptx

_NAME = "simt.product."
_GROUP = re.compile(r"\{([^}]*)\}")
_ZERO, _SUMS = "%simt_zero", tuple(f"%simt_sum{i}" for i in range(4))


@dataclass(frozen=True)
class _Rows:
    """Eight rows: their sums before and after, and the first operand's registers for each step."""

    after: tuple[str, ...]
    first: tuple[tuple[str, ...], ...]
    before: tuple[str, ...]


@dataclass
class _Line:
    """A line of the program, or the product that stands there."""

    text: str
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    kind: str = ""
    rows: tuple[_Rows, ...] = ()
    second: tuple[tuple[str, ...], ...] = ()


def multiplied(text: str) -> str:
    """The PTX with tensor instructions in place of products."""
    return ptx.by_entry(text, _entry) if _NAME in text else text


def _entry(lines: list[str]) -> Sequence[str]:
    if not any(_NAME in line for line in lines):
        return lines
    read = [_read(line) for line in lines]
    uses = Counter(name for line in read for name in line.reads)
    makes = Counter(name for line in read for name in line.writes)
    result: list[_Line] = []
    end = 0
    for start, stop in ptx.straight(lines):
        result += read[end:start]
        block = read[start:stop]
        _join_rows(block)
        _join_steps(block, {name for name in makes if makes[name] == 1 and uses[name] == 1})
        result += block
        end = stop
    result += read[end:]
    text = [line for item in result for line in (_instructions(item) if item.rows else (item.text,))]
    return ptx.declared([line for line in text if line], [("b32", name) for name in (_ZERO, *_SUMS)])


def _read(text: str) -> _Line:
    found = ptx.instruction(text)
    if found is None:
        return _Line(text)
    writes, reads = frozenset(found.writes), frozenset(found.reads)
    if not found.name.startswith(_NAME):
        return _Line(text, writes, reads)
    after, first, second, before = (tuple(group.split(", ")) for group in _GROUP.findall(found.operands))
    rows = _Rows(after, (first,), before)
    return _Line(text, writes, reads, found.name.removeprefix(_NAME), (rows,), (second,))


def _join_rows(block: list[_Line]) -> None:
    """Two products of one second operand become one of sixteen rows, at the place of the later."""
    waiting: dict[tuple[str, tuple[tuple[str, ...], ...]], int] = {}
    for at, line in enumerate(block):
        if line.rows:
            other = waiting.pop((line.kind, line.second), None)
            alone = other is not None and not block[other].writes & (line.reads | line.writes)
            if other is not None and alone and _may_sink(block, other, at):
                _put(block, other, at, (*block[other].rows, *line.rows), line.second)
            else:
                waiting[line.kind, line.second] = at


def _join_steps(block: list[_Line], passed_on: set[str]) -> None:
    """A product whose sums only another one takes joins it, where the tensor core has room for both steps."""
    makers: dict[str, int] = {}
    for at, line in enumerate(block):
        if not line.rows:
            continue
        other = makers.get(line.rows[0].before[0])
        if other is not None and _follows(block[other], line, passed_on) and _may_sink(block, other, at):
            pairs = zip(block[other].rows, line.rows, strict=True)
            rows = tuple(_Rows(b.after, a.first + b.first, a.before) for a, b in pairs)
            _put(block, other, at, rows, block[other].second + line.second)
        else:
            makers |= {name: at for rows in line.rows for name in rows.after}


def _follows(one: _Line, other: _Line, passed_on: set[str]) -> bool:
    """Whether `other` adds to all sums of `one`, row by row, and nobody else sees them."""
    given = [rows.after for rows in one.rows]
    return (
        one.kind == other.kind != "tf32"
        and len(one.second) == 1
        and given == [rows.before for rows in other.rows]
        and passed_on.issuperset(name for names in given for name in names)
    )


def _may_sink(block: list[_Line], at: int, to: int) -> bool:
    """Whether nothing between `at` and `to` minds if the product at `at` is done as part of the one at `to`."""
    line = block[at]
    return not any(
        line.reads & other.writes or line.writes & (other.reads | other.writes) for other in block[at + 1 : to]
    )


def _put(block: list[_Line], at: int, to: int, rows: tuple[_Rows, ...], second: tuple[tuple[str, ...], ...]) -> None:
    writes = frozenset(name for row in rows for name in row.after)
    reads = frozenset(name for row in rows for names in (*row.first, row.before) for name in names)
    block[to] = _Line("", writes, reads.union(*second), block[to].kind, rows, second)
    block[at] = _Line("")


def _instructions(product: _Line) -> Iterator[str]:
    upper, lower = product.rows[0], product.rows[1] if len(product.rows) > 1 else None
    yield f"\tmov.b32 \t{_ZERO}, 0;"
    if product.kind == "tf32":
        parts = product.second[0]
        yield from _two_in_parts(upper, lower, parts) if lower else _one_in_parts(upper, parts)
        return
    first = [part for i, a in enumerate(upper.first) for part in (*a, *(lower.first[i] if lower else (_ZERO,)))]
    second = [part for step in product.second for part in step]
    after = upper.after + (lower.after if lower else _SUMS[2:])
    before = upper.before + (lower.before if lower else (_ZERO, _ZERO))
    kind = product.kind
    yield _mma(f"m16n8k{8 * len(second)}.row.col.f32.{kind}.{kind}.f32", after, first, second, before)


# Products of floats: (high, high, low, low) are the parts in tf32 of a lane's two elements. Small products come first.
# The tensor core rounds its sums towards zero; over a long row that would cost a digit, so sums are added outside.
_TF32 = "m16n8k8.row.col.f32.tf32.tf32.f32"


def _two_in_parts(upper: _Rows, lower: _Rows, second: Sequence[str]) -> Iterator[str]:
    """low * high, high * low, high * high."""
    a, b = upper.first[0], lower.first[0]
    high, low = (a[0], b[0], a[1], b[1]), (a[2], b[2], a[3], b[3])
    yield _mma(_TF32, _SUMS, low, second[:2], (_ZERO,) * 4)
    yield _mma(_TF32, _SUMS, high, second[2:], _SUMS)
    yield _mma(_TF32, _SUMS, high, second[:2], _SUMS)
    yield from _added(upper.after + lower.after, upper.before + lower.before)


def _one_in_parts(rows: _Rows, second: Sequence[str]) -> Iterator[str]:
    """low * high rides along in the lower eight rows of high * high."""
    a = rows.first[0]
    yield _mma(_TF32, _SUMS, (a[0], _ZERO, a[1], _ZERO), second[2:], (_ZERO,) * 4)
    yield _mma(_TF32, _SUMS, (a[0], a[2], a[1], a[3]), second[:2], _SUMS)
    yield from (f"\tadd.rn.f32 \t{high}, {high}, {low};" for high, low in zip(_SUMS[:2], _SUMS[2:], strict=True))
    yield from _added(rows.after, rows.before)


def _added(after: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """The sums after, all of them written once the last one before was read."""
    yield from (f"\tadd.rn.f32 \t{one}, {other}, {one};" for one, other in zip(_SUMS, before, strict=False))
    yield from (f"\tmov.b32 \t{result}, {one};" for result, one in zip(after, _SUMS, strict=False))


def _mma(kind: str, after: Sequence[str], first: Sequence[str], second: Sequence[str], before: Sequence[str]) -> str:
    operands = ", ".join("{" + ", ".join(registers) + "}" for registers in (after, first, second, before))
    return f"\tmma.sync.aligned.{kind} \t{operands};"
