"""Reads PTX as clang writes it, as far as the passes over it must: what an instruction is, writes and reads."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_ENTRY = re.compile(r"^\.visible \.entry ")
_INSTRUCTION = re.compile(r"^\t(?:@!?(%\w+) )?([\w.:]+)\s*\t?(.*);\s*(?://.*)?$")
_REGISTER = re.compile(r"%[\w.]+")
_NO_RESULT = ("st.", "bar", "ret", "bra", "red.", "membar", "fence", "exit", "trap")


@dataclass(frozen=True)
class Instruction:
    """One instruction: `writes` and `reads` are registers, the predicate among what is read."""

    name: str
    operands: str
    predicate: str | None
    writes: tuple[str, ...]
    reads: tuple[str, ...]


def instruction(line: str) -> Instruction | None:
    """The instruction in a line; None where it holds none, as a label, a comment or a declaration."""
    match = _INSTRUCTION.match(line)
    if not match or match[2].startswith("."):
        return None
    predicate, name, operands = match.groups()
    if name.startswith(_NO_RESULT):
        targets, sources = "", operands
    elif operands.startswith("{"):
        targets, _, sources = operands[1:].partition("}")
    else:
        targets, _, sources = operands.partition(",")
    reads = (*_REGISTER.findall(sources), *((predicate,) if predicate else ()))
    return Instruction(name, operands, predicate, tuple(_REGISTER.findall(targets)), reads)


def is_plain(line: str) -> bool:
    """Whether control goes through this line and on to the next, without a label, a jump or a scope."""
    word = line.strip()
    if not word or word.startswith("//"):
        return True
    found = instruction(line)
    return found is not None and not found.name.startswith(("bra", "brx", "ret", "exit", "trap", "call"))


def by_entry(text: str, change: Callable[[list[str]], Sequence[str]]) -> str:
    """The PTX with the lines of each entry as `change` gives them back."""
    result: list[str] = []
    entry: list[str] = []
    for line in text.splitlines():
        if entry or _ENTRY.match(line):
            entry.append(line)
            if line == "}":
                result += change(entry)
                entry = []
        else:
            result.append(line)
    return "\n".join([*result, *entry]) + "\n"


def straight(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where lines follow each other without a label or a jump, from and until."""
    body = next((i for i, line in enumerate(lines) if line == "{"), len(lines))
    start = body + 1
    for i in range(start, len(lines)):
        if not is_plain(lines[i]):
            if i > start:
                yield start, i
            start = i + 1


def declared(lines: Sequence[str], registers: Sequence[tuple[str, str]]) -> list[str]:
    """An entry's lines with more registers, each given as its type and name."""
    if not registers:
        return list(lines)
    body = lines.index("{") + 1
    return [*lines[:body], *(f"\t.reg .{kind} \t{name};" for kind, name in registers), *lines[body:]]
