"""Runs a watched build: a launch on one worker, in memory with red zones, that is told what is wrong and what it cost.

check_ir.py puts the calls into the code, runtime/check.cpp answers them; docs/design/simt_checks.md says what is found,
what is not, and why right kernels are not reported.
"""

import ctypes
import json
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from kernelwright.simt.check_ir import KINDS, Block, Global, Site, Watched
from kernelwright.simt.counters import Counters, Traffic
from kernelwright.simt.unit import Entry

__all__ = ["POISONS", "Arena", "Fault", "FaultKind", "Outcome", "Place", "Tables", "Watch"]

_FOUND = 64
_BUFFER_ZONE = 1 << 20
_GROUP_ZONE = 2048
_ALIGNMENT = 256
POISONS = (0x7F, 0x00, 0xFF)
"""What fresh group memory is filled with, one after the other: a large float, zero, not a number."""
_CHECK, _COUNT = 1, 2
_KINDS = {"buffer": 0, "group": 1, "dynamic": 2, "constant": 3, "other": 4}
_NOBODY = 0xFFFFFFFF


class FaultKind(Enum):
    """What is wrong, in the order of runtime/check.cpp's numbers."""

    RACE = "data race"
    OUT_OF_BOUNDS = "out of bounds"
    UNINITIALISED = "uninitialised group memory"
    DIVERGENCE = "barrier divergence"
    MISALIGNED = "misaligned access"
    READ_ONLY = "write to read-only memory"
    UNFENCED = "barrier without fence"
    PARTIAL = "barrier in part of a SIMD group"

    @property
    def remark(self) -> bool:
        """Whether the rules are broken and it may work all the same: threads waited, though nothing ordered the memory;
        or some lanes of each SIMD group came to a barrier, which is all that hardware counts."""
        return self in (FaultKind.UNFENCED, FaultKind.PARTIAL)


@dataclass(frozen=True)
class Place:
    """A place in the user's text; lines and columns count from 1."""

    file: str
    line: int
    column: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Fault:
    """One thing wrong at one place, however often it happened (`times`).

    `thread` is a position in its group, `group` one in the grid. `memory` names what was touched, as "buffer 1 (out)"
    or "group variable tile"; empty where nothing is known to lie there. `offset` counts bytes from its start.
    """

    kind: FaultKind
    kernel: str
    place: Place
    thread: tuple[int, int, int]
    group: tuple[int, int, int]
    memory: str
    offset: int | None
    message: str
    other: Place | None = None
    times: int = 1


@dataclass(frozen=True)
class Tables:
    """What the numbers in a watched library mean; kept beside it as JSON."""

    sites: tuple[Site, ...]
    globals: tuple[Global, ...]
    blocks: tuple[Block, ...]

    @classmethod
    def of(cls, watched: Watched) -> "Tables":
        return cls(watched.sites, watched.globals, watched.blocks)

    def write(self, path: Path) -> None:
        """As rows of plain values."""
        rows = {name: [tuple(vars(item).values()) for item in getattr(self, name)] for name in vars(self)}
        path.write_text(json.dumps(rows))

    @classmethod
    def read(cls, path: Path) -> "Tables":
        rows = json.loads(path.read_text())
        return cls(
            tuple(Site(*row) for row in rows["sites"]),
            tuple(Global(*row) for row in rows["globals"]),
            tuple(Block(*row) for row in rows["blocks"]),
        )


class _Range(ctypes.Structure):
    _fields_ = (
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("kind", ctypes.c_uint32),
        ("index", ctypes.c_uint32),
        ("writable", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
    )


class _Site(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("bytes", "align", "kind", "pointer"))


class _Found(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_uint32)
            for name in ("kind", "site", "other_site", "thread", "other_thread", "group", "other_group", "range")
        ),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_uint64),
        ("times", ctypes.c_uint64),
    )


class _Traffic(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("bytes_read", "bytes_written", "atomics", "requests", "transactions", "conflict_cycles", "lines")
    )


@dataclass(frozen=True)
class _Region:
    """A range of memory under watch, with the name it has in reports."""

    name: str
    kind: str
    begin: int
    bytes: int
    index: int = 0
    writable: bool = True
    element_bytes: int = 0


@dataclass(frozen=True)
class Outcome:
    """What one run showed. `complete`: it was not given up at a fault."""

    faults: tuple[Fault, ...]
    counters: Counters
    complete: bool


class Arena:
    """Memory for a launch's buffers, with zones between them that belong to nobody.

    `arguments` are what Library.launch is given; what they hold is copied in, and written buffers are copied back.
    Buffers that share memory share it here, too, and are one region under the name of the first.
    """

    def __init__(self, entry: Entry, arguments: Mapping[int, tuple[int, int] | bytes]) -> None:
        parameters = {item.index: item for item in entry.parameters if item.kind == "buffer"}
        self._held = {
            index: ctypes.create_string_buffer(item) for index, item in arguments.items() if type(item) is bytes
        }
        given = {
            index: (ctypes.addressof(self._held[index]), len(item)) if isinstance(item, bytes) else item
            for index, item in arguments.items()
        }
        self._blocks: list[tuple[int, int, list[int]]] = []  # address and bytes of the caller's, buffers in it
        for index, (address, size) in sorted(given.items(), key=lambda pair: pair[1]):
            if self._blocks and address < (end := sum(self._blocks[-1][:2])):
                first, _, members = self._blocks[-1]
                self._blocks[-1] = (first, max(end, address + size) - first, [*members, index])
            else:
                self._blocks.append((address, size, [index]))
        starts, at = [], _BUFFER_ZONE
        for _, size, _ in self._blocks:
            starts.append(at)
            at += -(-size // _ALIGNMENT) * _ALIGNMENT + _BUFFER_ZONE
        self._memory = mmap.mmap(-1, at)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.regions: list[_Region] = []
        self.addresses: dict[int, tuple[int, int]] = {}
        """What a launch is given instead of the caller's memory."""
        for start, (address, size, members) in zip(starts, self._blocks, strict=True):
            known = [parameters[index] for index in sorted(members) if index in parameters]
            name = f"buffer {known[0].index} ({known[0].name})" if known else f"buffer {min(members)}"
            writable = any(item.writable for item in known) or not known
            element = known[0].element_bytes if known else 0
            self.regions.append(_Region(name, "buffer", base + start, size, min(members), writable, element))
            for index in members:
                self.addresses[index] = (base + start + given[index][0] - address if address else 0, given[index][1])
        self.fill()

    def fill(self) -> None:
        """Copies the caller's memory in."""
        for region, (address, size, _) in zip(self.regions, self._blocks, strict=True):
            ctypes.memmove(region.begin, address, size)

    def contents(self) -> list[bytes]:
        """What the writable buffers hold now."""
        return [ctypes.string_at(item.begin, item.bytes) for item in self.regions if item.writable]

    def give_back(self) -> None:
        """Copies what may have been written to the caller."""
        for region, (address, size, _) in zip(self.regions, self._blocks, strict=True):
            if region.writable:
                ctypes.memmove(address, region.begin, size)


class Watch:
    """The watched shared library of one entry: tells what a run of it did."""

    def __init__(self, library: ctypes.CDLL, tables: Tables) -> None:
        self._library = library
        self._tables = tables
        self._sites = (_Site * max(len(tables.sites), 1))(
            *(_Site(site.bytes, site.align, KINDS.index(site.kind), site.pointer) for site in tables.sites)
        )
        addresses = (ctypes.c_void_p * max(len(tables.globals), 1)).in_dll(library, "simt_watch_globals")
        self._globals = [
            _Region(
                f"{item.kind} variable {item.name}",
                item.kind,
                address or 0,
                item.bytes,
                writable=item.kind != "constant",
            )
            for item, address in zip(tables.globals, addresses, strict=False)
            if item.bytes
        ]
        self._blocks = (ctypes.c_uint64 * max(len(tables.blocks), 1)).in_dll(library, "simt_watch_blocks")

    def group_memory(self, entry: Entry, sizes: Mapping[int, int]) -> list[_Region]:
        """The dynamic group memories, at offsets with zones between them."""
        names = {item.index: item.name for item in entry.parameters if item.kind == "group_memory"}
        regions, at = [], _GROUP_ZONE
        for index, size in sorted(sizes.items()):
            regions.append(_Region(f"group memory {index} ({names.get(index, '')})", "dynamic", at, size, index))
            at += -(-size // _ALIGNMENT) * _ALIGNMENT + _GROUP_ZONE
        return regions

    def begin(self, entry_address: int, regions: Sequence[_Region], poison: int, *, check: bool, count: bool) -> None:
        """Before the launch; `entry_address` is the library's own simt_fiber function."""
        self._regions = [*regions, *self._globals]
        self._ranges = (_Range * max(len(self._regions), 1))(
            *(
                _Range(item.begin, item.begin + item.bytes, _KINDS[item.kind], item.index, item.writable, 0)
                for item in self._regions
            )
        )
        ctypes.memset(self._blocks, 0, ctypes.sizeof(self._blocks))
        self._library.simt_check_begin(
            ctypes.c_void_p(entry_address),
            self._ranges,
            len(self._regions),
            self._sites,
            len(self._tables.sites),
            _CHECK * check + _COUNT * count,
            poison,
        )

    def end(self, entry: Entry, threads: tuple[int, int, int], group: tuple[int, int, int], width: int) -> Outcome:
        """After the launch."""
        found, traffic = (_Found * _FOUND)(), (_Traffic * max(len(self._regions), 1))()
        sums = (ctypes.c_uint64 * 6)()
        count = self._library.simt_check_end(found, traffic, sums)
        barriers, exchanges, _, kept, unkept, given_up = sums
        shape = _Shape(group, tuple(-(-t // g) for t, g in zip(threads, group, strict=True)))
        faults = [self._fault(entry, found[i], shape) for i in range(count)]
        scale = (kept + unkept / width) / kept if unkept and kept else 1.0
        counters = Counters(
            entry.name,
            threads[0] * threads[1] * threads[2],
            shape.groups[0] * shape.groups[1] * shape.groups[2],
            group[0] * group[1] * group[2],
            width,
            tuple(
                _traffic(item, counted, scale)
                for item, counted in zip(self._regions, traffic, strict=False)
                if item.kind != "other" and (counted.bytes_read or counted.bytes_written)
            ),
            entry.group_memory_bytes + sum(item.bytes for item in self._regions if item.kind == "dynamic"),
            barriers,
            exchanges,
            *(
                sum(
                    times * getattr(block, name)
                    for times, block in zip(self._blocks, self._tables.blocks, strict=False)
                )
                for name in ("flops", "transcendentals", "matrix_flops")
            ),
            complete=not unkept,
        )
        return Outcome(_merged(faults), counters, not given_up)

    def _place(self, site: int) -> Place | None:
        if site >= len(self._tables.sites):
            return None
        item = self._tables.sites[site]
        return Place(item.file, item.line, item.column, item.function)

    def _fault(self, entry: Entry, found: Any, shape: "_Shape") -> Fault:
        kind = tuple(FaultKind)[found.kind]
        place = self._place(found.site) or Place("", 0, 0, "")
        region = self._regions[found.range] if found.range != _NOBODY else None
        thread, group = shape.thread(found.thread), shape.group_at(found.group)
        who = f"thread {thread} of group {group}"
        site = self._tables.sites[found.site] if found.site < len(self._tables.sites) else None
        verb = {"read": "reads", "atomic read": "reads", "write": "writes"}.get(site.kind if site else "", "updates")
        what = f"{who} {verb} {found.bytes} bytes"
        where = _where(region, found.offset)
        other = None
        match kind:
            case FaultKind.RACE | FaultKind.UNFENCED:
                other = self._place(found.other_site)
                sentence = self._race(found, shape, f"{what} {where}", other, kind)
            case FaultKind.OUT_OF_BOUNDS:
                sentence = f"{what} {_outside(region, found.offset)}"
            case FaultKind.UNINITIALISED:
                sentence = f"{what} {where}, which no thread of the group has written, and the result depends on it"
            case FaultKind.DIVERGENCE | FaultKind.PARTIAL:
                other = self._place(found.other_site)
                rest = f"thread {shape.thread(found.other_thread)}"
                rest += f" waits at the one in line {other.line}" if other else " has ended"
                sentence = (
                    f"{who} waits at the barrier here while {rest}; all threads of a group must reach the same one"
                )
            case FaultKind.MISALIGNED:
                align = site.align if site else 0
                sentence = f"{what} {where}, an address that is no multiple of {align}"
            case _:
                sentence = f"{what} {where}, which the kernel may only read"
        offset = found.offset if region else None
        name = region.name if region else ""
        message = f"{entry.name}: {kind.value} at {place}: {sentence}"
        return Fault(kind, entry.name, place, thread, group, name, offset, message, other, found.times)

    @staticmethod
    def _race(found: Any, shape: "_Shape", what: str, other: Place | None, kind: FaultKind) -> str:
        apart = found.other_group != found.group
        rest = f"thread {shape.thread(found.other_thread)}"
        rest += f" of group {shape.group_at(found.other_group)}" if apart else ""
        line = f"in line {other.line}" if other else "elsewhere"
        why = "nothing orders two groups" if apart else "no barrier lies between"
        if kind is FaultKind.UNFENCED:
            why = "the barrier between has flags that do not name this memory"
        return f"{what}, which {rest} touches {line}; {why}"


@dataclass(frozen=True)
class _Shape:
    """Of a launch: threads of a whole group, groups of the grid."""

    group: tuple[int, ...]
    groups: tuple[int, ...]

    def thread(self, index: int) -> tuple[int, int, int]:
        return _split(index, self.group)

    def group_at(self, index: int) -> tuple[int, int, int]:
        return _split(index, self.groups)


def _split(index: int, sides: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, _ = sides
    return index % x, index // x % y, index // x // y


def _where(region: _Region | None, offset: int) -> str:
    if region is None:
        return f"at address {offset:#x}"
    if region.element_bytes and offset % region.element_bytes == 0:
        return f"of {region.name}, element {offset // region.element_bytes}"
    return f"of {region.name}, byte {offset}"


def _outside(region: _Region | None, offset: int) -> str:
    if region is None:
        return f"at address {offset % (1 << 64):#x}, where nothing of the launch lies"
    size = region.element_bytes
    if size and offset % size == 0 and region.bytes % size == 0:
        return f"at element {offset // size} of {region.name}, which has {region.bytes // size} elements"
    return f"at byte {offset} of {region.name}, which has {region.bytes} bytes"


def _traffic(item: _Region, counted: Any, scale: float) -> Traffic:
    memory = "group" if item.kind == "dynamic" else item.kind
    return Traffic(
        item.name,
        memory,
        counted.bytes_read,
        counted.bytes_written,
        counted.atomics,
        round(counted.requests * scale),
        round(counted.transactions * scale),
        round(counted.conflict_cycles * scale),
        min(counted.lines * 128, -(-item.bytes // 128) * 128),
    )


_EXPLAINING = (FaultKind.RACE, FaultKind.UNFENCED, FaultKind.OUT_OF_BOUNDS)


def _merged(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """One for each kind, line and memory (for a race: pair of lines), the first of them with the times of all.

    What was read before it was written is told only where no race and no wrong index explains it.
    """
    explained = {fault.memory for fault in faults if fault.kind in _EXPLAINING}
    merged: dict[tuple[Any, ...], Fault] = {}
    for fault in faults:
        if fault.kind is FaultKind.UNINITIALISED and fault.memory in explained:
            continue
        lines = {(place.file, place.line) for place in (fault.place, fault.other) if place}
        key = (fault.kind, frozenset(lines), fault.memory)
        first = merged.setdefault(key, fault)
        if first is not fault:
            merged[key] = replace(first, times=first.times + fault.times)
    return tuple(merged.values())
