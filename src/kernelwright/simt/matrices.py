"""Lets many matrix products wait once: in optimised LLVM assembly, a block's products that don't need each other join.

One product of a SIMD group costs one meeting of its lanes, so a switch for each lane. A GEMM has sixteen independent
ones in a row; joined, sixteen products cost one meeting (runtime/products.cpp). simt_matrix_product reads and writes no
memory as far as the compiler is told, so it may move down to the last product that can do without its result.
"""

import re
from collections.abc import Iterator

_ONE = "simt_matrix_product"
_MANY = "simt_matrix_products"
_NO_ORDER = "simt_wait_none"
_MOST = 64
"""Products in one meeting (runtime/products.cpp)."""

_VALUE = r"float (?:noundef )?([^,()]+)"
_PRODUCT = re.compile(
    r"^  (%[\w.-]+) = (?:tail |notail )?call (?:\w+ )*?"
    rf'(<2 x float>|\[2 x float\]|{{ float, float }}|%[\w.:"]+) @{_ONE}\({", ".join([_VALUE] * 6)}\)'
)
_RESULT = re.compile(r"^  (%[\w.-]+) = ([\w.]+)")
_WRITES = re.compile(
    r"^  (?:store|fence|br|switch|ret)\b|^  (?:%[\w.-]+ = )?(?:atomicrmw|cmpxchg|(?:\w+ )?call (?!.*@llvm\.))"
)
_LOCAL = re.compile(r"%[\w.-]+")
_PURE = frozenset(
    {"bitcast", "extractelement", "insertelement", "shufflevector", "fadd", "fsub", "fmul", "fneg", "fdiv", "fptrunc"}
    | {"fpext", "select", "fcmp", "trunc", "zext", "sext", "add", "sub", "mul", "and", "or", "xor", "shl", "lshr"}
    | {"ashr", "icmp", "getelementptr", "freeze", "extractvalue", "insertvalue"}
)


def joined(text: str) -> str:
    """The module with its products joined; unchanged if it has none that can be."""
    if f"@{_ONE}(" not in text:
        return text
    result: list[str] = []
    tables: list[str] = []
    body: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            body = [line]
        elif body is not None:
            body.append(line)
            if line == "}":
                result += _function(body, tables)
                body = None
        else:
            result.append(line)
    if tables:
        result += [*tables, f"declare void @{_MANY}(ptr, ptr, i32, i32, i32) convergent nomerge"]
    return "\n".join(result) + "\n"


def _function(lines: list[str], tables: list[str]) -> list[str]:
    block = _Block(tables)
    out: list[str] = []
    for line in _without_idle_barriers(lines):
        out += block.take(line)
    if not block.most:
        return lines
    return _named(out, f"  %simt.products = alloca [{2 * block.most} x float], align 32")


def _without_idle_barriers(lines: list[str]) -> list[str]:
    """Without the barriers of a SIMD group that order no memory, where from wait to wait no memory is written."""
    out: list[str] = []
    quiet = False  # since the last wait of this block nothing was written
    barrier: int | None = None  # such a barrier, if it goes should nothing be written until the next wait
    for line in lines:
        if f"@{_NO_ORDER}(" in line:
            if quiet and barrier is not None:
                out[barrier] = ""
            barrier = len(out) if quiet else None
            quiet = True
        elif "@simt_" in line and " call " in line:
            if barrier is not None:
                out[barrier] = ""
            barrier, quiet = None, True
        elif not line.startswith("  ") or _WRITES.match(line):
            barrier, quiet = None, False
        out.append(line)
    return [line for line in out if line]


def _named(lines: list[str], first: str) -> list[str]:
    """The function with `first` as its first instruction and names for numbers, which would have to come in order."""
    numbers = [int(number) for number in re.findall(r"%(\d+)", lines[0])]
    body = lines[1:]
    if not re.match(r'(?:[\w.$-]+|"[^"]*"):', body[0]):  # the entry block's own number stands nowhere
        body.insert(0, f"{max(numbers, default=-1) + 1}:")
    body.insert(1, first)
    body = [re.sub(r"^(\d+):", r"v\1:", line) for line in body]
    return [re.sub(r"%(\d+)\b", r"%v\1", line) for line in [lines[0], *body]]


class _Block:
    """Walks down a block, holding back products and what only computes with their results."""

    def __init__(self, tables: list[str]) -> None:
        self._tables = tables  # constants that the calls point to, of the whole module
        self.most = 0  # pairs in the largest meeting
        self._meetings = 0
        self._products: list[re.Match[str]] = []
        self._after: list[str] = []
        self._names: set[str] = set()  # results not there yet

    def take(self, line: str) -> Iterator[str]:
        """The lines that can be written once `line` is known."""
        product = _PRODUCT.match(line)
        result = _RESULT.match(line)
        used = set(_LOCAL.findall(line.partition(" = ")[2] if result else line))
        if product:
            if used & self._names or len(self._products) == _MOST:
                yield from self._meet()
            self._products.append(product)
            self._names.add(product[1])
        elif result and result[2] in _PURE:
            if used & self._names:
                self._after.append(line)
                self._names.add(result[1])
            else:
                yield line
        else:
            if self._products and (not (result and result[2] == "load") or used & self._names):
                yield from self._meet()
            yield line

    def _meet(self) -> Iterator[str]:
        products, self._products = self._products, []
        if products:
            yield from self._join(products)
        yield from self._after
        self._after = []
        self._names = set()

    def _join(self, products: list[re.Match[str]]) -> Iterator[str]:
        self._meetings += 1
        name, area = f"%simt.products.{self._meetings}", "%simt.products"
        firsts = list(dict.fromkeys((product[3], product[4]) for product in products))
        seconds = list(dict.fromkeys((product[5], product[6]) for product in products))
        pairs = [*firsts, *seconds, *((product[7], product[8]) for product in products)]
        self.most = max(self.most, len(pairs))
        for i, pair in enumerate(pairs):
            for j, value in enumerate(pair):
                yield f"  {name}.{i}.{j} = getelementptr inbounds float, ptr {area}, i64 {2 * i + j}"
                yield f"  store float {value}, ptr {name}.{i}.{j}, align 4"
        which = [
            number
            for product in products
            for number in (firsts.index((product[3], product[4])), seconds.index((product[5], product[6])))
        ]
        numbers = ", ".join(f"i8 {number}" for number in which)
        table = f"@simt.which.{len(self._tables)}"
        self._tables.append(f"{table} = private unnamed_addr constant [{len(which)} x i8] [{numbers}]")
        sizes = f"i32 {len(products)}, i32 {len(firsts)}, i32 {len(seconds)}"
        yield f"  call void @{_MANY}(ptr {area}, ptr {table}, {sizes}) convergent nomerge"
        for i, product in enumerate(products):
            yield from _pair(product[1], product[2], f"{name}.{len(firsts) + len(seconds) + i}")


def _pair(result: str, kind: str, name: str) -> Iterator[str]:
    """Two numbers as the type that a product returns."""
    insert, places = ("insertelement", ("i64 0", "i64 1")) if kind.startswith("<") else ("insertvalue", ("0", "1"))
    yield f"  {result}.0 = load float, ptr {name}.0, align 4"
    yield f"  {result}.1 = load float, ptr {name}.1, align 4"
    yield f"  {result}.half = {insert} {kind} poison, float {result}.0, {places[0]}"
    yield f"  {result} = {insert} {kind} {result}.half, float {result}.1, {places[1]}"
