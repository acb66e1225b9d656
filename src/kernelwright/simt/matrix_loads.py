"""Matrices in shared memory are read by ldmatrix where it is proven to read the same: a pass over PTX.

What mma.sync takes of an 8 x 8 matrix of 16-bit elements is a word in each thread: thread t holds columns 2 (t mod 4)
and the next of row t / 4. A kernel reads it as that, a matrix at a time, and turns the second operand by movmatrix.
ldmatrix reads up to four matrices, and turns them on the way; threads give it the addresses of rows. Where addresses
are known from the threads' numbers, as a GEMM's are (threads.py), the rows follow, and one instruction does what four
or, turned, eight did.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernelwright.simt import ptx
from kernelwright.simt.threads import ALIGNMENT, MOST, Threads, aligned_places

_LOADS = ("ld.shared.b32", "ld.shared.u32")
_TURN = "movmatrix.sync.aligned.m8n8.trans.b16"
_TOGETHER = ("bar.sync", "movmatrix", "mma.sync")
"""What all threads of a warp do in one step, and so what follows until a branch. In warps that are not whole nothing is
multiplied."""
_WRITES = ("st.", "atom", "red")
_ORDERS = (*_WRITES, "bar.sync", "barrier", "membar", "fence", "ld.volatile", "ld.acquire", "ld.relaxed")
"""What no load of shared memory may pass, ..."""
_WAIT = "bar.warp.sync"
"""... and this as well, unless nothing was written since the whole group waited: then threads of a warp have nothing to
wait for of each other."""
_PLACE = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]$")
_LANE, _PART, _AWAY, _ROWS = "%simt_lane", "%simt_part", "%simt_away", "%simt_rows"


@dataclass(frozen=True)
class _Read:
    """A matrix read at line `at` and, if it is turned, at line `turned`; `register` is what comes of it."""

    at: int
    base: str
    offset: int
    register: str
    turned: int | None = None


@dataclass(frozen=True)
class _Group:
    """One, two or four matrices for one instruction at line `to`.

    Bits 0 and 1 of a matrix's number say which of the two `apart` to add to the place of the first.
    """

    reads: tuple[_Read, ...]
    to: int

    @property
    def apart(self) -> tuple[int, int]:
        one, two = ([read.offset - self.reads[0].offset for read in self.reads] + [0, 0])[1:3]
        return one, two


def gathered(text: str) -> str:
    """The PTX with ldmatrix in place of loads of matrices, and of movmatrix behind them."""
    if "mma.sync" not in text:
        return text
    places = aligned_places(text)
    return ptx.by_entry(text, lambda lines: _entry(lines, places))


def _entry(lines: list[str], places: frozenset[str]) -> Sequence[str]:
    if not any("mma.sync" in line for line in lines):
        return lines
    finder = _Finder(lines, places)
    groups = [group for start, stop in ptx.straight(lines) for group in finder.groups(start, stop)]
    return _written(lines, groups, finder) if groups else lines


class _Finder:
    def __init__(self, lines: Sequence[str], places: frozenset[str]) -> None:
        self._code = [ptx.instruction(line) for line in lines]
        found = [line for line in self._code if line]
        self._threads = Threads(lines, places)
        self._strides: dict[str, int | None] = {}
        self._uses = Counter(name for line in found for name in line.reads)
        self._multiplied = Counter(name for line in found if line.name.startswith("mma.sync") for name in line.reads)
        self.makers = {name: at for at, line in enumerate(self._code) if line for name in line.writes}
        makes = Counter(name for line in found for name in line.writes)
        self._once = {name for name, count in makes.items() if count == 1}

    def groups(self, start: int, stop: int) -> Iterator[_Group]:
        """The groups in straight code. Between two stores loads may stand anywhere, their results ready in time."""
        together: int | None = None
        begin, written = start, True
        for at in range(start, stop + 1):
            line = self._code[at] if at < stop else None
            name = line.name if line else ""
            if at == stop or name.startswith(_ORDERS) or (written and name.startswith(_WAIT)):
                yield from self._between(begin, at, together)
                begin = at + 1
            if name.startswith(_WRITES):
                written = True
            elif name.startswith("bar.sync"):
                written = False
            if together is None and line and not line.predicate and name.startswith(_TOGETHER):
                together = at + 1

    def _between(self, start: int, stop: int, together: int | None) -> Iterator[_Group]:
        if together is None:
            return
        plain, turned = self._reads(start, stop)
        for reads in _gathered(turned):
            yield _Group(reads, min(read.turned for read in reads if read.turned is not None))
        first = max(start, together)
        for reads in _gathered(plain):
            to = max(first, reads[0].at)
            names = {read.register for read in reads}
            early = (line for line in self._code[min(read.at for read in reads) : to] if line)
            if len(reads) > 1 and to < stop and not any(names.intersection(line.reads) for line in early):
                yield _Group(reads, to)

    def _reads(self, start: int, stop: int) -> tuple[list[_Read], list[_Read]]:
        """Those for a first operand, or stored as the second is wanted; and those turned, by where they are."""
        loads: dict[str, _Read] = {}
        turned: list[_Read] = []
        for at in range(start, stop):
            line = self._code[at]
            if line is None or line.predicate or not self._once.issuperset(line.writes):
                continue
            place = _PLACE.search(line.operands) if line.name in _LOADS else None
            if place and self.stride(place[1]) is not None and int(place[2] or 0) % ALIGNMENT == 0:
                loads[line.writes[0]] = _Read(at, place[1], int(place[2] or 0), line.writes[0])
            elif line.name == _TURN and line.reads[0] in loads and self._uses[line.reads[0]] == 1:
                read = loads.pop(line.reads[0])
                turned.append(_Read(read.at, read.base, read.offset, line.writes[0], at))
        plain = [read for name, read in loads.items() if self._uses[name] == self._multiplied[name]]
        return plain, turned

    def stride(self, base: str) -> int | None:
        """Bytes between rows, if the threads of each warp read at `base` as an operand of mma.sync lies in them."""
        if base not in self._strides:
            self._strides[base] = self._stride(base) if base in self._once else None
        return self._strides[base]

    def _stride(self, base: str) -> int | None:
        value = self._threads.value(base)
        if value is None:
            return None
        warps = value.parts.view(np.int64).reshape(MOST // 32, 8, 4)
        stride = int(warps[0, 1, 0] - warps[0, 0, 0])
        rows = warps[:, :1, :1] + stride * np.arange(8)[:, None]
        right = np.array_equal(warps, rows + 4 * np.arange(4)) and not (rows % ALIGNMENT).any()
        return stride if right else None


def _gathered(reads: list[_Read]) -> Iterator[tuple[_Read, ...]]:
    """Fours that one thread's number can tell apart, else twos, else one, of a base and in order."""
    by_base: defaultdict[str, list[_Read]] = defaultdict(list)
    for read in reads:
        by_base[read.base].append(read)
    for held in by_base.values():
        while held:
            offsets = [read.offset for read in held[:4]]
            four = len(offsets) == 4 and offsets[3] - offsets[2] == offsets[1] - offsets[0]
            count = 4 if four else min(2, len(held))
            yield tuple(held[:count])
            held = held[count:]


def _written(lines: list[str], groups: Sequence[_Group], finder: _Finder) -> list[str]:
    gone = {at for group in groups for read in group.reads for at in (read.at, read.turned) if at is not None}
    rows: dict[tuple[str, tuple[int, int]], str] = {}
    ahead: defaultdict[int, list[str]] = defaultdict(list)
    behind: defaultdict[int, list[str]] = defaultdict(list)
    for group in groups:
        first = group.reads[0]
        key = first.base, group.apart
        if key not in rows:
            rows[key] = f"{_ROWS}{len(rows)}"
            behind[finder.makers[first.base]] += _addresses(rows[key], first.base, finder.stride(first.base), key[1])
        turned = "" if first.turned is None else ".trans"
        registers = ", ".join(read.register for read in group.reads)
        kind = f"ldmatrix.sync.aligned.m8n8.x{len(group.reads)}{turned}.shared.b16"
        ahead[group.to].append(f"\t{kind} \t{{{registers}}}, [{rows[key]}+{first.offset}];")
    result = [
        text for at, line in enumerate(lines) for text in (*ahead[at], *([] if at in gone else [line]), *behind[at])
    ]
    words = [("b32", name) for name in (_LANE, _PART, _AWAY)]
    return ptx.declared(result, [*words, *(("b64", name) for name in rows.values())])


def _addresses(rows: str, base: str, stride: int | None, apart: tuple[int, int]) -> Iterator[str]:
    """The address of row t mod 8 of matrix t / 8, out of that of thread t's word in the first matrix."""
    yield f"\tmov.u32 \t{_LANE}, %tid.x;"
    yield f"\tand.b32 \t{_PART}, {_LANE}, 7;"
    yield f"\tmul.lo.s32 \t{_AWAY}, {_PART}, {stride};"
    for shift, bits, bytes_away in ((2, 3, -(stride or 0)), (0, 2, -4), (3, 1, apart[0]), (4, 1, apart[1])):
        yield f"\tbfe.u32 \t{_PART}, {_LANE}, {shift}, {bits};"
        yield f"\tmad.lo.s32 \t{_AWAY}, {_PART}, {bytes_away}, {_AWAY};"
    yield f"\tcvt.s64.s32 \t{rows}, {_AWAY};"
    yield f"\tadd.s64 \t{rows}, {rows}, {base};"
