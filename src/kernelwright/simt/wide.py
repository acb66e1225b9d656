"""Accesses to neighbours in memory become wide ones where the addresses allow it: a pass over PTX.

A kernel copies sixteen bytes as eight halves, or reads four floats one by one, since its language promises nothing of
their address; most of the time it is a multiple of sixteen. So the stretch of code that holds such accesses is written
twice, with wide ones and as it was, and the addresses decide at run time. That a wide access touches the same bytes and
no others is all that is relied on.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelwright.simt import ptx

_ACCESS = re.compile(r"^(ld|st)\.(global|shared)(\.nc)?(?:\.v([24]))?\.(?:[bu](8)|[bfsu](16|32|64))$")
_PLACE = re.compile(r"\[(%\w+)(?:\+(-?\d+))?\]")
_REGISTER = {8: r"%rs\d+", 16: r"%rs\d+", 32: r"%[rf]\d+", 64: r"%(?:rd|fd)\d+"}
_KEPT_APART = ("ld.param.", "ld.local.", "st.local.", "ld.const.")
"""What no pointer to global or shared memory reaches."""
_TOGETHER = ("bar", "shfl", "vote", "match", "activemask", "mma", "movmatrix", "ldmatrix")
_ORDERED = ("red", "atom", "membar", "fence", "ld.volatile", "st.volatile", "ld.relaxed", "st.relaxed", "ld.acquire")
"""What a warp does together, and what orders memory: not written twice, and nothing moves over it."""
_WORTH = 3
"""Accesses that a stretch must save: what a test of addresses and a branch cost."""
_MOST_BYTES = 16
_NO_PREDICATES = "\tnanosleep.u32 \t0;"
"""Makes NVIDIA's assembler jump over the narrow accesses. Else it issues each under a predicate, which takes time."""


@dataclass(frozen=True)
class _Access:
    """A load or store of a whole number of registers. `base` is a register, of the `age`-th value in its stretch."""

    at: int
    load: bool
    space: str
    cached: str
    base: str
    age: int
    offset: int
    bits: int
    registers: tuple[str, ...]

    @property
    def end(self) -> int:
        return self.offset + len(self.registers) * self.bits // 8


@dataclass(frozen=True)
class _Group:
    """Neighbours that one access can take, by offset."""

    members: tuple[_Access, ...]

    @property
    def first(self) -> int:
        return min(access.at for access in self.members)

    @property
    def last(self) -> int:
        return max(access.at for access in self.members)

    @property
    def size(self) -> int:
        return self.members[-1].end - self.members[0].offset


def widened(text: str) -> str:
    """The PTX with wide accesses beside those of neighbours."""
    return ptx.by_entry(text, _entry)


def _entry(lines: list[str]) -> Sequence[str]:
    writer = _Writer()
    result: list[str] = []
    end = 0
    for start, stop in _stretches(lines):
        result += lines[end:start]
        result += writer.stretch(lines[start:stop])
        end = stop
    return ptx.declared([*result, *lines[end:]], writer.registers)


def _stretches(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Straight code in which nothing is done together and memory has no order."""
    for start, stop in ptx.straight(lines):
        begin = start
        for i in range(start, stop):
            found = ptx.instruction(lines[i])
            if found and found.name.startswith((*_TOGETHER, *_ORDERED)):
                yield begin, i
                begin = i + 1
        yield begin, stop


class _Writer:
    def __init__(self) -> None:
        self.registers: list[tuple[str, str]] = []
        self._labels = 0

    def stretch(self, lines: list[str]) -> list[str]:
        code = [ptx.instruction(line) for line in lines]
        groups: list[_Group] = []
        for group in _groups(code):
            if _may_move(code, group) and all(_agree(group, other) for other in groups):
                groups.append(group)
        result: list[str] = []
        end = 0
        for part in _parts(code, groups):
            if sum(len(group.members) - 1 for group in part) >= _WORTH:
                start, stop = min(group.first for group in part), max(group.last for group in part) + 1
                result += lines[end:start]
                result += self._twice(lines, start, stop, part)
                end = stop
        return result + lines[end:]

    def _twice(self, lines: list[str], start: int, stop: int, groups: list[_Group]) -> list[str]:
        narrow, join = self._label(), self._label()
        result = list(self._test(groups, narrow))
        places = {group.first if group.members[0].load else group.last: group for group in groups}
        gone = {access.at for group in groups for access in group.members}
        words: dict[tuple[str, ...], str] = {}  # registers that hold what others hold in parts, as it was loaded
        for i in range(start, stop):
            if i in places:
                result += self._wide(places[i], words)
            elif i not in gone:
                result.append(lines[i])
                found = ptx.instruction(lines[i])
                _forget(words, set(found.writes) if found else set())
        result += [f"\tbra.uni \t{join};", f"{narrow}:", _NO_PREDICATES]
        return [*result, *lines[start:stop], f"{join}:"]

    def _test(self, groups: list[_Group], narrow: str) -> Iterator[str]:
        """Jumps to `narrow` unless every group begins at a multiple of its size."""
        bits, differ = self._new("b64"), self._new("pred")
        masks: dict[tuple[str, int], int] = {}
        for group in groups:
            place = group.members[0].base, group.members[0].offset % _MOST_BYTES
            masks[place] = max(masks.get(place, 0), group.size - 1)
        for number, ((base, offset), mask) in enumerate(masks.items()):
            into = self._new("b64") if number else bits
            yield f"\tadd.s64 \t{into}, {base}, {offset};"
            yield f"\tand.b64 \t{into}, {into}, {mask};"
            if number:
                yield f"\tor.b64 \t{bits}, {bits}, {into};"
        yield f"\tsetp.ne.b64 \t{differ}, {bits}, 0;"
        yield f"\t@{differ} bra \t{narrow};"

    def _wide(self, group: _Group, words: dict[tuple[str, ...], str]) -> Iterator[str]:
        """One access for a group. What is smaller than a word is kept in `words` as well, to be stored as it came."""
        first = group.members[0]
        held = [register for access in group.members for register in access.registers]
        count = max(1, 32 // first.bits)
        parts = [tuple(held[i : i + count]) for i in range(0, len(held), count)] if count > 1 else []
        if parts:
            held = [(None if first.load else words.get(part)) or self._new("b32") for part in parts]
        vector = f".v{len(held)}" if len(held) > 1 else ""
        value = f"{{{', '.join(held)}}}" if vector else held[0]
        name = f"{'ld' if first.load else 'st'}.{first.space}{first.cached}{vector}.b{max(first.bits, 32)}"
        place = f"[{first.base}+{first.offset}]"
        if first.load:
            yield f"\t{name} \t{value}, {place};"
            for part, word in zip(parts, held, strict=bool(parts)):
                yield from self._taken_apart(part, word)
            _forget(words, {name for part in parts for name in part})
            words |= dict(zip(parts, held, strict=bool(parts)))
        else:
            for part, word in zip(parts, held, strict=bool(parts)):
                if words.get(part) != word:
                    yield from self._put_together(part, word)
            yield f"\t{name} \t{place}, {value};"

    def _taken_apart(self, part: tuple[str, ...], word: str) -> Iterator[str]:
        if len(part) == 2:
            yield f"\tmov.b32 \t{{{', '.join(part)}}}, {word};"
            return
        narrow = [self._new("b8") for _ in part]
        yield f"\tmov.b32 \t{{{', '.join(narrow)}}}, {word};"
        yield from (f"\tcvt.u16.u8 \t{name}, {byte};" for name, byte in zip(part, narrow, strict=True))

    def _put_together(self, part: tuple[str, ...], word: str) -> Iterator[str]:
        if len(part) == 4:
            narrow = tuple(self._new("b8") for _ in part)
            yield from (f"\tcvt.u8.u16 \t{byte}, {name};" for name, byte in zip(part, narrow, strict=True))
            part = narrow
        yield f"\tmov.b32 \t{word}, {{{', '.join(part)}}};"

    def _new(self, kind: str) -> str:
        self.registers.append((kind, f"%simt_wide{len(self.registers)}"))
        return self.registers[-1][1]

    def _label(self) -> str:
        self._labels += 1
        return f"$simt_wide{self._labels}"


def _forget(words: dict[tuple[str, ...], str], written: set[str]) -> None:
    for part in [part for part in words if written.intersection(part)]:
        del words[part]


def _groups(code: Sequence[ptx.Instruction | None]) -> list[_Group]:
    """Neighbours of a base, cut where a wide access must begin if the first one does."""
    ages: dict[str, int] = {}
    found: dict[tuple[object, ...], list[_Access]] = {}
    for at, line in enumerate(code):
        access = _access(line, at, ages) if line else None
        if access:
            kind = access.load, access.space, access.cached, access.base, access.age, access.bits
            found.setdefault(kind, []).append(access)
        for name in line.writes if line else ():
            ages[name] = ages.get(name, 0) + 1
    return [group for accesses in found.values() for group in _cut(sorted(accesses, key=lambda a: a.offset))]


def _access(line: ptx.Instruction, at: int, ages: dict[str, int]) -> _Access | None:
    match, place = _ACCESS.match(line.name), _PLACE.search(line.operands)
    if not match or not place or line.predicate or not place[1].startswith("%rd"):
        return None
    load = match[1] == "ld"
    registers = line.writes if load else tuple(name for name in line.reads if name != place[1])
    bits = int(match[5] or match[6])
    fit = all(re.fullmatch(_REGISTER[bits], name) for name in registers)  # else it extends, or is cut off
    if len(registers) != int(match[4] or 1) or not fit:  # or it stores a constant, or its own address
        return None
    base, offset = place[1], int(place[2] or 0)
    return _Access(at, load, match[2], match[3] or "", base, ages.get(base, 0), offset, bits, registers)


def _cut(accesses: Sequence[_Access]) -> Iterator[_Group]:
    phase = accesses[0].offset
    held: list[_Access] = []
    for access in [*accesses, None]:
        if held and (access is None or access.offset != held[-1].end or (access.offset - phase) % _MOST_BYTES == 0):
            yield from _powers(held, phase)
            held = []
        if access is not None:
            held.append(access)


def _powers(held: list[_Access], phase: int) -> Iterator[_Group]:
    """Groups of 4, 8 or 16 bytes out of neighbours that lie within sixteen."""
    while held:
        for size in (_MOST_BYTES, _MOST_BYTES // 2, _MOST_BYTES // 4):
            taken = [access for access in held if access.end - held[0].offset <= size]
            whole = taken[-1].end - held[0].offset == size if taken else False
            if whole and len(taken) > 1 and (held[0].offset - phase) % size == 0:
                yield _Group(tuple(taken))
                held = held[len(taken) :]
                break
        else:
            held = held[1:]


def _may_move(code: Sequence[ptx.Instruction | None], group: _Group) -> bool:
    """Whether loads may be done where the first one is, stores where the last one is."""
    own = {access.at for access in group.members}
    registers = {access.at: set(access.registers) for access in group.members}
    held = set().union(*registers.values())
    one = group.members[0]
    if len(held) != sum(map(len, registers.values())) and one.load:
        return False
    pending: set[str] = set()  # of the loads still to come, or of the stores held back
    if one.load:
        pending = held - registers[group.first]
    for at in range(group.first, group.last + 1):
        line = code[at]
        if at in own:
            pending = pending - registers[at] if one.load else pending | registers[at]
        elif line is not None:
            touched = set(line.writes) | (set(line.reads) if one.load else set())
            if touched & pending or one.base in line.writes or not _apart(line, group):
                return False
    return True


def _apart(line: ptx.Instruction, group: _Group) -> bool:
    """Whether an instruction among a group's does not touch its memory in a way that shows."""
    if not line.name.startswith(("ld.", "st.")) or line.name.startswith(_KEPT_APART):
        return True
    one = group.members[0]
    load = line.name.startswith("ld.")
    if load and one.load:
        return True
    access = _access(line, 0, {})
    if access is None:
        return False
    if access.space != one.space:
        return True
    within = access.offset < group.members[-1].end and one.offset < access.end
    return access.base == one.base and not within


def _agree(one: _Group, other: _Group) -> bool:
    """Whether both groups may move: loads up, stores down, so that they may pass each other."""
    if one.members[0].load == other.members[0].load:
        return True  # what they pass was asked for each
    loads, stores = (one, other) if one.members[0].load else (other, one)
    if loads.first > stores.last or loads.last < stores.first:
        return True
    loaded = {name: access.at for access in loads.members for name in access.registers}
    if any(loaded.get(name, -1) > access.at for access in stores.members for name in access.registers):
        return False
    load, store = loads.members[0], stores.members[0]
    apart = load.offset >= stores.members[-1].end or store.offset >= loads.members[-1].end
    return load.space != store.space or ((load.base, load.age) == (store.base, store.age) and apart)


def _parts(code: Sequence[ptx.Instruction | None], groups: list[_Group]) -> Iterator[list[_Group]]:
    """The groups whose addresses are all known where the first one begins, and then the next."""
    part: list[_Group] = []
    start = end = 0
    for group in sorted(groups, key=lambda group: group.first):
        base = group.members[0].base
        if part and any(line and base in line.writes for line in code[start : group.first]):
            yield part
            part, start = [], end
        if group.first < start:
            continue
        if not part:
            start = group.first
        part.append(group)
        end = max(end, group.last + 1)
    if part:
        yield part
