"""A function of LLVM assembly as basic blocks: what each defines and uses, and in which order control passes them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.simt.layout import parts, type_of

NAME = re.compile(r'%(?:"[^"]*"|[\w.$-]+)')
_RESULT = re.compile(r'(%(?:"[^"]*"|[\w.$-]+)) = ')
LABEL = re.compile(r'("[^"]*"|[\w.$-]+):')
_TARGET = re.compile(r'label (%(?:"[^"]*"|[\w.$-]+))')
_INCOMING = re.compile(r'\[ (.*?), (%(?:"[^"]*"|[\w.$-]+)) \]')
_FLAGS = re.compile(
    r"(?:tail|musttail|notail|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|nsw|nneg|exact|disjoint|samesign|inbounds"
    r"|inrange\([^)]*\)|volatile|atomic|weak|syncscope\([^)]*\)) "
)
_CALL_WORDS = re.compile(
    r"(?:fastcc|coldcc|noundef|nonnull|noalias|zeroext|signext|inreg|nofpclass\([^)]*\)|range\([^)]*\)"
    r"|align \d+|dereferenceable(?:_or_null)?\(\d+\)|addrspace\(\d+\)) "
)


class NotUnderstood(Exception):
    """The text holds what this module does not know."""


@dataclass(frozen=True)
class Line:
    """One instruction: the text, without indent; the value it defines, if any."""

    text: str
    result: str | None

    @property
    def body(self) -> str:
        """The instruction without its result."""
        return self.text[len(self.result) + 3 :] if self.result else self.text

    @property
    def word(self) -> str:
        """Its opcode."""
        body = self.body
        while match := re.match(r"(?:tail|musttail|notail) ", body):
            body = body[match.end() :]
        return body.split(" ", 1)[0]

    @property
    def type(self) -> str:
        """The type of what it defines. Raises NotUnderstood."""
        return _type(self)

    @property
    def incoming(self) -> list[tuple[str, str]]:
        """Of a phi: (value, label) pairs."""
        return _INCOMING.findall(self.body)

    @property
    def targets(self) -> list[str]:
        """Of the last instruction of a block: labels of those that may follow."""
        return list(dict.fromkeys(_TARGET.findall(self.text)))


def line(text: str) -> Line:
    match = _RESULT.match(text)
    return Line(text, match[1] if match else None)


@dataclass
class Block:
    """`label` begins with %, as where it is named. The last line is a branch, a switch, a return or "unreachable"."""

    label: str
    lines: list[Line] = field(default_factory=list)

    @property
    def following(self) -> list[str]:
        return self.lines[-1].targets


def blocks(text: Sequence[str]) -> list[Block]:
    """The blocks of a function, from its "define" to its "}", numbers turned into names. Raises NotUnderstood."""
    head = text[0]
    arguments = [int(number) for number in re.findall(r"%(\d+)", head)]
    found = [Block(f"%v{max(arguments, default=-1) + 1}")]
    for raw in joined_switches(text[1:-1]):
        raw = re.sub(r"%(\d+)\b", r"%v\1", raw)
        label = LABEL.match(raw)
        if label and not raw.startswith(" "):
            name = f"%v{label[1]}" if label[1].isdigit() else f"%{label[1]}"
            if found[-1].lines:
                found.append(Block(name))
            else:
                found[-1].label = name
        elif raw.strip() and not raw.lstrip().startswith((";", "#dbg")):
            found[-1].lines.append(line(raw.strip()))
    for block in found:
        if block.lines[-1].word not in ("br", "switch", "ret", "unreachable"):
            raise NotUnderstood(f"a block ends with {block.lines[-1].text}")
    return found


def joined_switches(lines: Sequence[str]) -> Iterator[str]:
    """The lines, a switch on one of them."""
    held: list[str] = []
    for text in lines:
        if held or (text.startswith("  switch ") and "]" not in text):
            held.append(text.strip())
            if text.strip().startswith("]"):
                yield "  " + " ".join(held)
                held = []
        else:
            yield text


def _type(of: Line) -> str:
    word, body = of.word, of.body
    rest = body.split(" ", 1)[1] if word != "call" else re.split(r"\bcall ", body, maxsplit=1)[1]
    flags = _CALL_WORDS if word == "call" else _FLAGS
    while match := (_FLAGS.match(rest) or flags.match(rest)):
        rest = rest[match.end() :]
    if word in ("icmp", "fcmp"):
        kind, _ = type_of(rest.split(" ", 1)[1])
        return f"<{kind[1:].split(' ')[0]} x i1>" if kind.startswith("<") else "i1"
    if word in ("alloca", "getelementptr"):
        if word == "getelementptr" and re.search(r"<\d+ x (?:ptr|i\d+)> ", rest):
            raise NotUnderstood(of.text)
        return "ptr"
    if re.search(r"^(?:trunc|zext|sext|fptrunc|fpext|fptoui|fptosi|uitofp|sitofp|ptrtoint|inttoptr|bitcast)$", word):
        return type_of(rest[rest.rindex(" to ") + 4 :])[0]
    if word == "select":
        _, rest = type_of(rest)
        return type_of(rest.split(", ", 1)[1])[0]
    if word == "extractelement":
        return type_of(rest)[0].strip("<>").split(" x ", 1)[1]
    if word == "shufflevector":
        element = type_of(rest)[0].strip("<>").split(" x ", 1)[1]
        mask = re.findall(r"<(\d+) x i32>", rest)[-1]
        return f"<{mask} x {element}>"
    if word == "atomicrmw":
        return type_of(rest.split(", ", 1)[1])[0]
    if word == "cmpxchg":
        return f"{{ {type_of(rest.split(', ', 1)[1])[0]}, i1 }}"
    if word == "extractvalue":
        kind, rest = type_of(rest)
        number = int(rest.rsplit(", ", 1)[1].split()[0])
        return kind.strip("[]").split(" x ", 1)[1] if kind.startswith("[") else parts(kind.strip("<>")[1:-1])[number]
    if word in ("va_arg", "landingpad", "invoke", "callbr"):
        raise NotUnderstood(of.text)
    return type_of(rest)[0]


def in_order(following: Mapping[int, Sequence[int]], start: int) -> list[int]:
    """All that can be reached from `start`, each before what comes after it; a loop stays together, entered at its top.

    So whoever waits within a branch or a loop has a lower place than who waits behind it.
    """
    return _ordered(set(_reachable(following, start)), following, start)


def innermost(following: Mapping[int, Sequence[int]], start: int) -> Iterator[tuple[int, set[int]]]:
    """Loops that hold no other: the top of each, and all of it."""
    yield from _innermost(set(_reachable(following, start)), following, start)


def _innermost(within: set[int], following: Mapping[int, Sequence[int]], start: int) -> Iterator[tuple[int, set[int]]]:
    for circle in _circles(within, following, start):
        if len(circle) == 1 and circle[0] not in following[circle[0]]:
            continue
        top = _top(circle, within, following, start)
        inner = {n: [m for m in following[n] if m != top] for n in circle}
        loops = list(_innermost(set(circle), inner, top))
        yield from loops or [(top, set(circle))]


def _reachable(following: Mapping[int, Sequence[int]], start: int) -> list[int]:
    seen, waiting = {start: None}, [start]
    while waiting:
        for after in following[waiting.pop()]:
            if after not in seen:
                seen[after] = None
                waiting.append(after)
    return list(seen)


def _ordered(within: set[int], following: Mapping[int, Sequence[int]], start: int) -> list[int]:
    result: list[int] = []
    for circle in reversed(list(_circles(within, following, start))):
        if len(circle) == 1:
            result += circle
        else:
            top = _top(circle, within, following, start)
            inner = {n: [m for m in following[n] if m != top] for n in circle}
            result += _ordered(set(circle), inner, top)
    return result


def _top(circle: list[int], within: set[int], following: Mapping[int, Sequence[int]], start: int) -> int:
    """Where a loop is entered."""
    members = set(circle)
    if start in members:
        return start
    entered = {m for n in within - members for m in following[n] if m in members}
    return min(entered)


def _circles(within: set[int], following: Mapping[int, Sequence[int]], start: int) -> Iterator[list[int]]:
    """Strongly connected parts (Tarjan), each after all that it leads to."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    open_: set[int] = set()
    for root in [start, *sorted(within)]:
        if root in number:
            continue
        work = [(root, iter([m for m in following[root] if m in within]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        open_.add(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in number:
                    number[after] = low[after] = len(number)
                    stack.append(after)
                    open_.add(after)
                    work.append((after, iter([m for m in following[after] if m in within])))
                    break
                if after in open_:
                    low[node] = min(low[node], number[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        open_.discard(part[-1])
                    yield part
