"""Puts calls into a kernel's LLVM assembly that let runtime/check.cpp see every access to memory.

Why not a sanitizer: `-fsanitize=thread` skips accesses of 12 and 32 bytes and knows neither line nor type, and the
runtimes of the others aren't in the wheel. The text of a load says its size, its alignment and, by its !dbg mark, the
user's own line, so that no debug format has to be read later (docs/design/simt_checks.md).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelwright.simt.layout import Types, closing, parts, type_of

__all__ = ["Block", "Global", "Site", "Watched", "watch"]

GROUP_SECTION = "simt_group"
"""Where group variables go, one after the other. In the text given they are the thread_local ones (SIMT_GROUP)."""
KINDS = ("read", "write", "atomic", "barrier", "fence", "atomic read")
"""What a place does, in the order of runtime/check.cpp's numbers."""
ZONE_BYTES = 2048
"""Red zone before, between and behind the group variables: an index that is off by less is seen."""


@dataclass(frozen=True)
class Site:
    """One place in the code that touches memory or waits. `line` counts from 1 in the user's own file, 0 if unknown."""

    kind: str  # one of KINDS
    bytes: int  # 0 where it is known only when it runs
    align: int
    file: str
    line: int
    column: int
    function: str
    pointer: bool = False  # what is read is itself an address


@dataclass(frozen=True)
class Global:
    """A variable at file scope or in group memory. `kind`: "group", "constant" or "other"."""

    symbol: str
    kind: str
    bytes: int

    @property
    def name(self) -> str:
        """As the user wrote it: the last name within a mangled symbol."""
        names = _source_names(self.symbol)
        return names[-1] if names else self.symbol


@dataclass(frozen=True)
class Block:
    """What one run through a basic block of one thread does."""

    flops: int = 0
    transcendentals: int = 0
    matrix_flops: int = 0


@dataclass(frozen=True)
class Watched:
    """Assembly with calls into it, and the tables that its numbers index."""

    text: str
    sites: tuple[Site, ...]
    globals: tuple[Global, ...]
    blocks: tuple[Block, ...]


def watch(assembly: str, library: str) -> Watched:
    """The module with a call before each access, zones around group variables and a counter in each block.

    An access inlined from a file whose path begins with `library` is told at the user's line that led to it; one that
    the runtime itself needs (_RUNTIME_FILES in them) is left alone. `assembly` comes from clang -S -emit-llvm -g1.
    """
    return _Pass(assembly, library).result()


_SOURCE_NAME = re.compile(r"(\d+)")
_DEFINE = re.compile(r'^define .*?@("[^"]+"|[\w.$]+)\(')
_GLOBAL = re.compile(r'^@("[^"]+"|[\w.$]+) = (.*?)\b(global|constant) (.*)$')
_LABEL = re.compile(r'^("[^"]+"|[\w.$-]+):')
_RESULT = re.compile(r'^(%[\w.$"-]+) = ')
_DEBUG = re.compile(r"!dbg !(\d+)")
_CALL = re.compile(r'\bcall\b[^@(]*?(?:\([^@]*\) )?@("[^"]+"|[\w.$]+)\(')
_OPERAND = re.compile(r'%[\w.$-]+|%"[^"]+"|@[\w.$]+|@"[^"]+"|(?<!\w)(?:null|poison)\b')
_EXPRESSION = re.compile(r"\b(?:getelementptr|inttoptr|addrspacecast)\b[^(]*")
_ALIGN = re.compile(r"\balign (\d+)")
_FLOAT = re.compile(r"\bf(?:add|sub|mul|div|rem)\b(?: (?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc))* (.+)$")
_FUSED = re.compile(r"@llvm\.(?:fma|fmuladd)\.(?:v(\d+))?")
_HARD = re.compile(
    r"^(?:llvm\.(?:exp|exp2|exp10|log|log2|log10|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|pow|sqrt)\.(?:v(\d+))?.*"
    r"|(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|sin|cos|tan|sincos|asin|acos|atan|atan2|sinh|cosh|tanh|asinh|acosh"
    r"|atanh|pow|cbrt|erf|erfc|tgamma|lgamma|rsqrt|sqrt)f?)$"
)
_THREAD_LOCAL = re.compile(
    r'(= )(?:tail )?call [^@]*@llvm\.threadlocal\.address\.p0\(ptr [^@]*(@"[^"]+"|@[\w.$]+)\)(?: #\d+)?'
)


def _source_names(symbol: str) -> list[str]:
    """The identifiers within an Itanium-mangled name, in order."""
    names, at = [], 0
    while match := _SOURCE_NAME.search(symbol, at):
        length = int(match[1])
        name = symbol[match.end() : match.end() + length]
        if length and len(name) == length and re.fullmatch(r"[A-Za-z_]\w*", name):
            names.append(name)
            at = match.end() + length
        else:
            at = match.end()
    return names


_RUNTIME_FILES = ("cpu.hpp", "entry.hpp", "fibers.cpp", "products.cpp")
"""Files of runtime/ whose accesses are to the runtime's own state."""
MATRIX_FLOPS_PER_LANE = 2 * 8 * 8 * 8 // 32
"""An 8 x 8 x 8 product is the work of 32 lanes."""


@dataclass
class _Debug:
    """The module's !N nodes, as far as places need them."""

    library: str
    nodes: dict[str, str] = field(default_factory=dict)

    places: dict[str, tuple[str, int, int, str]] = field(default_factory=dict)

    def runtimes(self, mark: str) -> bool:
        """Whether the innermost place is in the runtime, which keeps its own state there."""
        file = self.place(mark)[0]
        return file.startswith(self.library) and file.endswith(_RUNTIME_FILES)

    def users(self, mark: str) -> str:
        """The mark of the user's place that `mark` was inlined into."""
        while self.place(mark)[0].startswith(self.library) and (caller := self.caller(mark)):
            mark = caller
        return mark

    def place(self, mark: str) -> tuple[str, int, int, str]:
        """(file, line, column, function) of a !dbg mark."""
        if mark not in self.places:
            self.places[mark] = self.read_place(mark)
        return self.places[mark]

    def read_place(self, mark: str) -> tuple[str, int, int, str]:
        text = self.nodes.get(mark, "")
        line, column = _number(text, "line"), _number(text, "column")
        scope = self.nodes.get(_reference(text, "scope"), "")
        file, function = _reference(scope, "file"), ""
        while scope and "DISubprogram" not in scope:
            scope = self.nodes.get(_reference(scope, "scope"), "")
        if match := re.search(r'\bname: "([^"]*)"', scope):
            function = match[1]
        named = re.search(r'filename: "([^"]*)"', self.nodes.get(file, ""))
        return (named[1] if named else ""), line, column, function

    def caller(self, mark: str) -> str:
        """The mark of the call into which this place was inlined; empty if it was not."""
        return _reference(self.nodes.get(mark, ""), "inlinedAt")


def _number(text: str, key: str) -> int:
    match = re.search(rf"\b{key}: (\d+)", text)
    return int(match[1]) if match else 0


def _reference(text: str, key: str) -> str:
    match = re.search(rf"\b{key}: !(\d+)", text)
    return match[1] if match else ""


class _Pass:
    def __init__(self, assembly: str, library: str) -> None:
        self.lines = assembly.splitlines()
        self.debug = _Debug(library)
        self.types = Types(self.lines)
        self.sites: list[Site] = []
        self.globals: list[Global] = []
        self.blocks: list[Block] = []
        for line in self.lines:
            if line.startswith("!") and (match := re.match(r"!(\d+) = (.*)", line)):
                self.debug.nodes[match[1]] = match[2]

    def result(self) -> Watched:
        out: list[str] = []
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            if line.startswith("define "):
                end = next(index for index in range(at, len(self.lines)) if self.lines[index] == "}")
                out += self.function(self.lines[at : end + 1])
                at = end + 1
                continue
            out += self.variable(line) if line.startswith("@") else [line]
            at += 1
        return Watched(
            "\n".join([*out, *self.tables()]) + "\n", tuple(self.sites), tuple(self.globals), tuple(self.blocks)
        )

    def variable(self, line: str) -> list[str]:
        match = _GLOBAL.match(line)
        if not match or "external" in match[2].split() or match[1].startswith("llvm."):
            return [line]
        symbol, words, keyword, rest = match[1].strip('"'), match[2], match[3], match[4]
        written, _ = type_of(rest)
        size = self.types.size(written)
        if "thread_local" not in words:
            self.globals.append(Global(symbol, "constant" if keyword == "constant" else "other", size))
            return [line]
        # One plain section in the order of this text, so that zones lie between the variables.
        align = max(16, int(found[1])) if (found := _ALIGN.search(rest)) else 16
        value = parts(rest)[0]
        line = f'@{match[1]} = internal global {value}, section "{GROUP_SECTION}", align {align}'
        self.globals.append(Global(symbol, "group", size))
        return [self.zone(len(self.globals)), line]

    @staticmethod
    def zone(number: int) -> str:
        return (
            f"@simt_zone_{number} = internal global [{ZONE_BYTES} x i8] zeroinitializer, "
            f'section "{GROUP_SECTION}", align 16'
        )

    def tables(self) -> list[str]:
        """The last zone, the addresses of the variables in the order of `globals`, the counters, the declarations."""
        variables = [f'ptr @"{variable.symbol}"' for variable in self.globals]
        return [
            self.zone(0),
            f"@simt_watch_globals = global [{max(len(variables), 1)} x ptr] [{', '.join(variables) or 'ptr null'}]",
            f"@simt_watch_blocks = global [{max(len(self.blocks), 1)} x i64] zeroinitializer",
            "declare void @simt_watch_access(ptr, i32)",
            "declare void @simt_watch_bytes(ptr, i64, i32)",
            "declare void @simt_watch_site(i32)",
        ]

    def function(self, lines: list[str]) -> list[str]:
        match = _DEFINE.match(lines[0])
        name = match[1].strip('"') if match else ""
        if name.startswith(("simt_watch", "_ZN4simt5fiber")):
            return lines
        own: set[str] = set()
        out = [lines[0]]
        for block in _blocks(lines[1:-1]):
            out += self.block(block, own)
        return [*out, "}"]

    def block(self, lines: list[str], own: set[str]) -> list[str]:
        out: list[str] = []
        work = Block()
        mark = ""
        for line in lines:
            found = _DEBUG.search(line)
            if found and self.debug.place(found[1])[1]:
                mark = found[1]
            out += self.accesses(line, mark, own)
            out.append(_THREAD_LOCAL.sub(r"\1getelementptr i8, ptr \2, i64 0", line))
            work = _sum(work, _work(line))
        if work == Block():
            return out
        first = next(
            (
                at
                for at, line in enumerate(out)
                if not _LABEL.match(line)
                and " = phi " not in line
                and line.strip()
                and not line.lstrip().startswith(("#dbg", ";"))
            ),
            len(out),
        )
        number = len(self.blocks)
        self.blocks.append(work)
        slot = f"getelementptr inbounds (i64, ptr @simt_watch_blocks, i64 {number})"
        count = [
            f"  %simt.c{number} = load i64, ptr {slot}",
            f"  %simt.d{number} = add i64 %simt.c{number}, 1",
            f"  store i64 %simt.d{number}, ptr {slot}",
        ]
        return out[:first] + count + out[first:]

    def accesses(self, line: str, mark: str, own: set[str]) -> Iterator[str]:
        """The calls that belong before one instruction. `own` gathers pointers into the thread's own variables."""
        text = line.strip()
        result = _RESULT.match(text)
        body = text[result.end() :] if result else text
        word = body.split(" ", 1)[0]
        if word == "alloca" and result:
            own.add(result[1])
        elif word == "getelementptr" and result:
            if _pointer(parts(body)[1]) in own:
                own.add(result[1])
        elif word in ("load", "store", "atomicrmw", "cmpxchg"):
            if not self.debug.runtimes(mark):
                yield from self.access(word, body, mark, own)
        elif "call" in (word, body.split(" ", 2)[1] if " " in body else "") and (called := _CALL.search(body)):
            yield from self.call(called[1].strip('"'), body[called.end() - 1 :], mark, own)
        elif word == "fence":
            yield self.at_site("fence", 0, 0, mark)

    def access(self, word: str, body: str, mark: str, own: set[str]) -> Iterator[str]:
        pieces = parts(body)
        head = re.sub(r"^(?:load|store|atomicrmw|cmpxchg)(?: (?:atomic|weak|volatile))*", "", pieces[0]).strip()
        atomic = word in ("atomicrmw", "cmpxchg") or re.match(r"(?:load|store) atomic", body)
        if word == "load":
            written, pointer = head, _pointer(pieces[1])
        elif word == "store":
            written, pointer = type_of(head)[0], _pointer(pieces[1])
        else:
            written, pointer = type_of(pieces[1])[0], _pointer(pieces[0])
        if pointer in own or "@simt_" in pointer:
            return
        size = self.types.size(written)
        align = int(found[1]) if (found := _ALIGN.search(body)) else size
        kind = {"load": "read", "store": "write"}.get(word, "atomic")
        if atomic:
            kind = "atomic read" if word == "load" else "atomic"
        number = self.site(kind, size, align, mark, written == "ptr")
        yield f"  call void @simt_watch_access(ptr {pointer}, i32 {number})"

    def call(self, name: str, arguments: str, mark: str, own: set[str]) -> Iterator[str]:
        if name.startswith(("llvm.memcpy", "llvm.memmove", "llvm.memset")) and not self.debug.runtimes(mark):
            given = parts(arguments[1 : closing(arguments, 0)])
            count = given[2].split()[-1]
            sides = (
                [(given[0], "write")] if name.startswith("llvm.memset") else [(given[1], "read"), (given[0], "write")]
            )
            for side, kind in sides:
                if (pointer := _pointer(side)) in own:
                    continue
                align = int(found[1]) if (found := _ALIGN.search(side)) else 1
                number = self.site(kind, int(count) if count.isdigit() else 0, align, mark)
                yield f"  call void @simt_watch_bytes(ptr {pointer}, i64 {count}, i32 {number})"
        elif name == "simt_wait_group":
            yield self.at_site("barrier", 0, 0, mark)

    def at_site(self, kind: str, size: int, align: int, mark: str) -> str:
        return f"  call void @simt_watch_site(i32 {self.site(kind, size, align, mark)})"

    def site(self, kind: str, size: int, align: int, mark: str, pointer: bool = False) -> int:
        self.sites.append(Site(kind, size, align, *self.debug.place(self.debug.users(mark)), pointer))
        return len(self.sites) - 1


def _pointer(part: str) -> str:
    """The pointer in an operand, without its type, attributes and ordering."""
    if expression := _EXPRESSION.search(part):
        return part[expression.start() : closing(part, expression.end()) + 1]
    match = _OPERAND.search(part)
    return match[0] if match else "null"


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in lines:
        if _LABEL.match(line) and block:
            yield block
            block = []
        block.append(line)
    yield block


def _sum(one: Block, other: Block) -> Block:
    return Block(
        one.flops + other.flops,
        one.transcendentals + other.transcendentals,
        one.matrix_flops + other.matrix_flops,
    )


def _work(line: str) -> Block:
    """What one instruction counts as: a fused multiply-add is two operations, a comparison none."""
    text = line.strip()
    if match := _FLOAT.search(text.split(", !dbg")[0]):
        return Block(flops=_lanes(match[1]))
    if "call" not in text or not (called := _CALL.search(text)):
        return Block()
    if fused := _FUSED.search(text):
        return Block(flops=2 * int(fused[1] or 1))
    name = called[1].strip('"')
    if name == "simt_matrix_product":
        return Block(matrix_flops=MATRIX_FLOPS_PER_LANE)
    if hard := _HARD.match(name):
        return Block(transcendentals=int(hard[1] or 1))
    return Block()


def _lanes(operands: str) -> int:
    match = re.match(r"<(\d+) x ", operands)
    return int(match[1]) if match else 1
