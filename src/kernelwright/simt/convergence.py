"""Brings the lanes of a warp together before they exchange: a pass over PTX.

`activemask` tells who runs in step, and after a branch lanes may run apart for longer than the program says: MLX's
looped softmax came out wrong. Where all lanes of a warp must arrive, as no branch that they decide differently is open,
they are made to wait for each other first. Elsewhere nothing is added: waiting for a lane that never comes would hang
the GPU. So whatever is not understood counts as decided differently.
"""

import re
from dataclasses import dataclass, field

from kernelwright.simt import ptx

_TOGETHER = "activemask.b32"
_WAIT = "\tbar.warp.sync \t-1;"
_LABEL = re.compile(r"^(\$[\w$]+):")
_JUMP = re.compile(r"^\t(?:@!?(%\w+) )?bra(?:\.uni)? \t?(\$[\w$]+);")
_WRITES = ("st.", "atom", "red")
_OWN = ("%tid.x", "%laneid")
_OWN_RESULTS = ("atom", "activemask", "vote", "shfl", "match", "call", "movmatrix", "ldmatrix", "mma")


@dataclass
class _Block:
    lines: list[int] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    decided_by: str | None = None  # the register that chooses among `next`
    unknown: bool = False  # ends in a jump that is not understood


def converged(text: str) -> str:
    """The PTX with a wait of the warp before each `activemask` to which all of its lanes come."""
    return ptx.by_entry(text, _entry)


def without_idle_waits(text: str) -> str:
    """The PTX without those waits of a warp on whose both sides, until its next and last wait, no memory is written.

    They order nothing, but NVIDIA's assembler moves no load over them.
    """
    return ptx.by_entry(text, _without_idle_waits)


def _without_idle_waits(lines: list[str]) -> list[str]:
    idle = set[int]()
    quiet = False  # the warp waited in this block, and nothing was written since
    before: int | None = None  # a wait of the warp that goes if nothing is written until the next one
    for i, line in enumerate(lines):
        found = ptx.instruction(line)
        if found and found.name.startswith("bar"):
            if quiet and before is not None:
                idle.add(before)
            before = i if quiet and line == _WAIT else None
            quiet = True
        elif not ptx.is_plain(line) or (found and found.name.startswith(_WRITES)):
            before, quiet = None, False
    return [line for i, line in enumerate(lines) if i not in idle]


def _entry(lines: list[str]) -> list[str]:
    if not any(_TOGETHER in line for line in lines):
        return lines
    blocks = _blocks(lines)
    apart = _apart(lines, blocks)
    at = {i for number, block in enumerate(blocks) if number not in apart for i in block.lines}
    return [
        text for i, line in enumerate(lines) for text in ((_WAIT, line) if _TOGETHER in line and i in at else (line,))
    ]


def _blocks(lines: list[str]) -> list[_Block]:
    """Basic blocks in order. Ends of the kernel are no successors: lanes that ended are waited for by nobody."""
    blocks, labels, jumps = [_Block()], {}, []
    for i, line in enumerate(lines):
        label = _LABEL.match(line)
        if label:
            if blocks[-1].lines:
                blocks[-1].next.append(len(blocks))
                blocks.append(_Block())
            labels[label[1]] = len(blocks) - 1
            continue
        blocks[-1].lines.append(i)
        jump = _JUMP.match(line)
        word = line.strip()
        if jump:
            number = len(blocks) - 1
            jumps.append((number, jump[2]))
            blocks[number].decided_by = jump[1]
            blocks.append(_Block())
            if jump[1]:
                blocks[number].next.append(number + 1)
        elif word in ("ret;", "exit;", "trap;"):
            blocks.append(_Block())
        elif re.match(r"(@!?%\w+ )?(brx|bra|ret|exit)\b", word):
            blocks[-1].unknown = True
    for number, label in jumps:
        blocks[number].next.append(labels[label])
    ends = {n for n, block in enumerate(blocks) if all(_is_end(lines[i]) for i in block.lines) and not block.next}
    for block in blocks:
        if len(block.next) > 1:
            block.next = [n for n in block.next if n not in ends] or block.next
    return blocks


def _is_end(line: str) -> bool:
    word = line.strip()
    return not word or word.startswith("//") or word in ("ret;", "}", "{")


def _apart(lines: list[str], blocks: list[_Block]) -> set[int]:
    """The blocks that only some lanes of a warp may be in."""
    if any(block.unknown for block in blocks):
        return set(range(len(blocks)))
    joins = _joins(blocks)
    regions = {n: _until(blocks, n, joins[n]) for n, block in enumerate(blocks) if len(set(block.next)) > 1}
    lanes, apart = _Lanes(), set[int]()
    while True:
        before = len(lanes.differ), len(apart)
        for number, block in enumerate(blocks):
            for i in block.lines:
                lanes.read(lines[i], number in apart)
            if number in regions and block.decided_by in lanes.differ:
                apart |= regions[number]
        if (len(lanes.differ), len(apart)) == before:
            return apart


class _Lanes:
    """Which registers may differ among the lanes of a warp; those that hold the thread's number are known apart."""

    def __init__(self) -> None:
        self.differ: set[str] = set()
        self._threads: set[str] = set()

    def read(self, line: str, apart: bool) -> None:
        """Takes note of one line, which only some lanes come to if `apart`."""
        found = ptx.instruction(line)
        if found is None or not found.writes:
            return
        if found.name.startswith("mov") and found.reads == ("%tid.x",):
            self._threads |= {*found.writes}
        differs = found.name.startswith(_OWN_RESULTS) or not self.differ.union(_OWN).isdisjoint(found.reads)
        if apart or (differs and not self._same_for_a_warp(found)):
            self.differ |= {*found.writes}

    def _same_for_a_warp(self, found: ptx.Instruction) -> bool:
        """The number of the warp: a thread's number without its five low bits. Blocks have one dimension."""
        right = found.operands.rpartition(",")[2].strip()
        if len(found.reads) != 1 or found.reads[0] not in self._threads or not re.fullmatch(r"-?\d+", right):
            return False
        return (found.name.startswith("shr.") and int(right) >= 5) or (
            found.name.startswith("and.") and int(right) & 31 == 0
        )


def _joins(blocks: list[_Block]) -> list[int | None]:
    """For each block the first one that all ways from it go through, None if they only meet at the end."""
    end = len(blocks)
    after = [(1 << (end + 1)) - 1] * end  # bit n: all ways from here go through block n
    changed = True
    while changed:
        changed = False
        for number in reversed(range(end)):
            ways = (1 << (end + 1)) - 1 if blocks[number].next else 1 << end
            for following in blocks[number].next:
                ways &= after[following]
            ways |= 1 << number
            changed |= ways != after[number]
            after[number] = ways
    joins: list[int | None] = []
    for number in range(end):
        strict = after[number] & ~(1 << number)
        joins.append(next((n for n in range(end) if strict >> n & 1 and after[n] == strict), None))
    return joins


def _until(blocks: list[_Block], start: int, join: int | None) -> set[int]:
    """The blocks between a branch and the place where all its ways have come together again."""
    waiting, seen = list(blocks[start].next), set[int]()
    while waiting:
        number = waiting.pop()
        if number != join and number not in seen:
            seen.add(number)
            waiting += blocks[number].next
    return seen
