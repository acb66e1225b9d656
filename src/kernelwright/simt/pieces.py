"""An entry's function on the way to regions: cut at its waits into pieces, and what its lanes must keep across them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.simt.control_flow import NAME, Block, Line, NotUnderstood, blocks, in_order, innermost, line
from kernelwright.simt.layout import Types, type_of

_WAIT = re.compile(
    r"call (?:\w+ )*void @simt_(?:wait_(group|none)\(\)|wait_simd\(ptr (?:noundef |nonnull )*(@[\w.$-]+|null)\)"
    r"|matrix_products\(ptr (%[\w.-]+), ptr (@[\w.$-]+), (i32 \d+, i32 \d+, i32 \d+)\))"
)
_SELF = re.compile(r"call .*@simt_self_(\w+)\(\)")
_ANSWERS = {
    "group": "getelementptr i8, ptr %simt.group, i64 0",
    "simd": "getelementptr i8, ptr %simt.simd, i64 0",
    **{name: f"add i32 %simt.{name}, 0" for name in ("lane", "index", "first", "x", "y", "z")},
}
_SAME = frozenset(
    {"add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "zext", "sext", "trunc", "icmp", "select"}
    | {"getelementptr", "ptrtoint", "inttoptr", "bitcast"}
)
_SAME_CALL = re.compile(r"call .*@llvm\.(?:threadlocal\.address|umin|umax|smin|smax)\.")
_LIFETIME = re.compile(r"call void @llvm\.lifetime\.")
_PRODUCTS = "%simt.products"
"""Where matrices.py puts operands: one array over the lanes for each number."""
_KEPT_BYTES = 4 << 20
"""Of a SIMD group: its share of the arena (kStackBytes and kMaxThreads in cpu.hpp)."""


_TOGETHER = re.compile(r"\b(?:atomicrmw|cmpxchg|fence|volatile|atomic)\b|call (?!.*@llvm\.)|\balloca\b")
_FEW_LINES = 16
"""A loop shorter than that is not worth a pause."""
_MOST_PAUSES = 8


@dataclass(frozen=True)
class Wait:
    """`complete` is the line that lets lanes meet, without its lanes; `barrier` that of the group.

    At a `pause` nobody needs to wait: there all lanes of a SIMD group that go through a loop together may be run side
    by side, one turn at a time."""

    barrier: bool
    complete: str
    pause: bool = False


@dataclass
class Piece:
    """A part of a block that ends with a wait or as the block does."""

    block: Block
    label: str
    lines: list[Line]
    wait: Wait | None
    following: list[int]
    after: int | None = None  # the piece behind the wait


class Pieces:
    """One entry's function, its analysis done. Raises NotUnderstood."""

    def __init__(self, text: Sequence[str], index: int, width: int, types: Types, *, pauses: bool) -> None:
        self.index, self.width, self._types = index, width, types
        head = text[0]
        arguments = re.findall(r"(%[\w.]+)(?=[,)])", head[head.index("(") :])
        if len(arguments) != 2:
            raise NotUnderstood(head)
        self.attributes = " ".join(re.findall(r"#\d+", head[head.rindex(")") :]))
        self._own = {
            re.sub(r"%(\d+)", r"%v\1", old): new
            for old, new in zip(arguments, ("%simt.group", "%simt.launch"), strict=True)
        }
        self._lines: dict[str, Line] = {}
        self.kept_bytes = 0
        found = blocks(text)
        self.pieces = self._split(found, _pauses(found) if pauses else set())
        self.order = self._numbered()
        # Pauses come first: nobody meets anybody before those who can go on have done so.
        self.waits = sorted((n for n in self.order if self.pieces[n].wait), key=lambda n: not self.pauses(n))
        self.state = {n: i for i, n in enumerate(self.waits, 1)}
        self.same = self._found_same()
        self.uses = [self._used(piece) for piece in self.pieces]
        self.defines = [{x.result for x in piece.lines if x.result} for piece in self.pieces]
        self.across = self._living()
        self.slots = self._placed()
        if self.kept_bytes > _KEPT_BYTES:
            raise NotUnderstood("too much lives across waits")

    # Reading

    def pauses(self, n: int) -> bool:
        """Whether a piece ends with a pause."""
        wait = self.pieces[n].wait
        return wait is not None and wait.pause

    def _split(self, found: list[Block], pauses: set[str]) -> list[Piece]:
        pieces: list[Piece] = []
        first: dict[str, int] = {}
        for block in found:
            first[block.label] = len(pieces)
            held: list[Line] = []
            count = 0
            pause = block.label in pauses
            for item in block.lines:
                if pause and item.word != "phi":
                    pause = False
                    wait = Wait(barrier=False, complete="", pause=True)
                    pieces.append(Piece(block, block.label, held, wait, [], len(pieces) + 1))
                    held, count = [], 1
                item = self._own_names(item)
                if _LIFETIME.search(item.text):
                    continue
                match = _WAIT.search(item.text)
                if not match:
                    if "@simt_wait_" in item.text or "@simt_matrix_product" in item.text:
                        raise NotUnderstood(item.text)
                    held.append(item)
                    if item.result:
                        self._lines[item.result] = item
                    continue
                label = block.label if not count else f"{block.label}.simt.{count}"
                pieces.append(Piece(block, label, held, _wait(match), [], len(pieces) + 1))
                held, count = [], count + 1
            label = block.label if not count else f"{block.label}.simt.{count}"
            pieces.append(Piece(block, label, held, None, []))
        last = {piece.block.label: n for n, piece in enumerate(pieces)}
        for piece in pieces:
            if piece.wait is None:
                piece.following = [first[label] for label in piece.lines[-1].targets]
        self.last = {label: pieces[n].label for label, n in last.items()}
        self.last_number = last
        return pieces

    def _own_names(self, item: Line) -> Line:
        text = NAME.sub(lambda match: self._own.get(match[0], match[0]), item.text)
        return line(text) if text != item.text else item

    def _numbered(self) -> list[int]:
        ways = {n: piece.following if piece.after is None else [piece.after] for n, piece in enumerate(self.pieces)}
        return in_order(ways, 0)

    def _found_same(self) -> dict[str, Line]:
        """What can be computed anew wherever it is needed, with the same result."""
        same: dict[str, Line] = {}
        roots = {"%simt.group", "%simt.launch"}  # and what points into them
        known = set(roots)
        for n in self.order:
            for item in self.pieces[n].lines:
                name = item.result
                if not name:
                    continue
                if any(other in self._lines and other not in known for other in NAME.findall(item.body)):
                    continue
                word, body = item.word, item.body
                asked = _SELF.search(body)
                if asked:
                    item = Line(f"{name} = {_ANSWERS[asked[1]]}", name)
                elif word == "alloca":
                    item = self._own_memory(item)
                elif word == "load":
                    pointer = re.search(r", ptr (%[\w.-]+)", body)
                    if not pointer or pointer[1] not in roots or re.search(r"\b(?:volatile|atomic)\b", body):
                        continue
                elif word in _SAME or (word == "call" and _SAME_CALL.search(body)):
                    if word == "getelementptr" and (base := re.search(r"ptr (%[\w.-]+)", body)) and base[1] in roots:
                        roots.add(name)
                    if name.startswith(f"{_PRODUCTS}."):
                        item = self._operand(item)
                else:
                    continue
                same[name] = item
                known.add(name)
        if any(item.word == "alloca" and name not in same for name, item in self._lines.items()):
            raise NotUnderstood("memory on the stack of a size that is not known")
        return same

    def _own_memory(self, item: Line) -> Line:
        """A thread's own array, in the kept memory of its lane."""
        kind, rest = type_of(item.body.removeprefix("alloca "))
        count = int(match[1]) if (match := re.match(r", i\d+ (\d+)", rest)) else 1
        align = int(match[1]) if (match := re.search(r"align (\d+)", rest)) else 16
        align = max(align, 16)
        size = -(-self._room(kind) * count // align) * align
        at = self._reserve(size)
        if item.result == _PRODUCTS:
            return Line(f"{item.result} = getelementptr i8, ptr %simt.kept, i64 {at}", item.result)
        lane = f"{item.result}.simt.lane"
        return Line(
            f"{lane} = zext nneg i32 %simt.lane to i64\n"
            f"  {lane}.at = mul nuw nsw i64 {lane}, {size}\n"
            f"  {lane}.here = getelementptr inbounds nuw i8, ptr %simt.kept, i64 {at}\n"
            f"  {item.result} = getelementptr inbounds nuw i8, ptr {lane}.here, i64 {lane}.at",
            item.result,
        )

    def _operand(self, item: Line) -> Line:
        """Number i of all lanes lies together."""
        number = int(item.body.rsplit(" ", 1)[1])
        name = item.result
        return Line(
            f"{name}.lane = zext nneg i32 %simt.lane to i64\n"
            f"  {name}.all = getelementptr inbounds nuw float, ptr {_PRODUCTS}, i64 {number * self.width}\n"
            f"  {name} = getelementptr inbounds nuw float, ptr {name}.all, i64 {name}.lane",
            name,
        )

    def _used(self, piece: Piece) -> set[str]:
        """What a piece reads that must have been computed before it, phis apart."""
        names: set[str] = set()
        inside: set[str] = set()
        for item in piece.lines:
            if item.word != "phi":
                names |= {n for n in self.values(item.body) if n not in inside}
            if item.result:
                inside.add(item.result)
        return names

    def values(self, text: str) -> set[str]:
        return {name for name in NAME.findall(text) if name in self._lines and name not in self.same}

    def into(self, piece: Piece, following: Piece) -> set[str]:
        """What phis of the following piece take on the way from this one."""
        return {
            name
            for item in following.lines
            if item.word == "phi"
            for value, label in item.incoming
            if label == piece.block.label
            for name in self.values(value)
        }

    def _living(self) -> list[set[str]]:
        """For each piece what must be known where it begins."""
        begins: list[set[str]] = [set() for _ in self.pieces]
        changed = True
        while changed:
            changed = False
            for n in reversed(self.order):
                piece = self.pieces[n]
                ends: set[str] = set(begins[piece.after]) if piece.after is not None else set()
                for m in piece.following:
                    ends |= begins[m] | self.into(piece, self.pieces[m])
                now = self.uses[n] | (ends - self.defines[n])
                if now != begins[n]:
                    begins[n], changed = now, True
        return begins

    def sources(self, name: str) -> set[str]:
        """What the value of `name` comes from: the thread's own numbers by name, and "memory" for all else."""
        found: set[str] = set()
        work, seen = [name], set[str]()
        while work:
            one = work.pop()
            if one in seen:
                continue
            seen.add(one)
            if own := re.fullmatch(r"%simt\.(lane|index|first|x|y|z)", one):
                found.add(own[1])
            elif one in self.same:
                work += NAME.findall(self.same[one].body)
            elif one in self._lines and self._lines[one].word not in ("load", "phi", "call"):
                work += NAME.findall(self._lines[one].body)
            elif one in self._lines or one in ("%simt.group", "%simt.launch"):
                found.add("memory")
        return found

    # What is kept

    def _placed(self) -> dict[str, tuple[int, str]]:
        """Where each value that lives across a wait lies, and its type: values never there at once share a place."""
        at: dict[str, int] = {}
        for n in self.waits:
            after = self.pieces[n].after
            assert after is not None
            for name in self.across[after]:
                at[name] = at.get(name, 0) | 1 << self.state[n]
        places: dict[int, list[tuple[int, int]]] = {}
        slots: dict[str, tuple[int, str]] = {}
        for name, waits in sorted(at.items(), key=lambda pair: (pair[1] & -pair[1], pair[0])):
            kind = self._lines[name].type
            size = self._room(kind)
            same = places.setdefault(size, [])
            for i, (offset, taken) in enumerate(same):
                if not taken & waits:
                    same[i] = offset, taken | waits
                    slots[name] = offset, kind
                    break
            else:
                offset = self._reserve(size)
                same.append((offset, waits))
                slots[name] = offset, kind
        return slots

    def _reserve(self, size: int) -> int:
        at = self.kept_bytes
        self.kept_bytes += -(-size * self.width // 64) * 64
        return at

    def _room(self, kind: str) -> int:
        """Bytes from one to the next in an array, or more: vectors and odd integers are padded."""
        size = self._types.size(kind)
        if not size:
            raise NotUnderstood(kind)
        return 1 << (size - 1).bit_length() if kind[0] not in "[{<%" else 2 * size


def _pauses(found: list[Block]) -> set[str]:
    """Where loops that hold no waits begin their turns, and where they lead to."""
    number = {block.label: n for n, block in enumerate(found)}
    following = {n: [number[label] for label in block.following] for n, block in enumerate(found)}
    tops: set[str] = set()
    for top, members in innermost(following, 0):
        lines = [item for n in members for item in found[n].lines]
        if any(_TOGETHER.search(item.body) for item in lines) or len(lines) < _FEW_LINES:
            continue
        if any(item.word in ("load", "store") for item in lines):
            after = {m for n in members for m in following[n]} - members
            tops |= {found[n].label for n in (top, *after)}
    return tops if len(tops) <= _MOST_PAUSES else set()


def _wait(match: re.Match[str]) -> Wait:
    kind, complete, area, table, sizes = match.groups()
    if kind:
        return Wait(kind == "group", "")
    if area:
        return Wait(False, f"products {area} ptr {table}, {sizes}")
    return Wait(False, "" if complete == "null" else complete)
