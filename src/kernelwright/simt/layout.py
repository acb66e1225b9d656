"""Types in LLVM assembly: where one ends in the text, and how many bytes it takes; sizes of group variables."""

import re
from collections.abc import Iterable

_SCALARS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, "x86_fp80": 16, "fp128": 16}


def parts(text: str) -> list[str]:
    """`text` split at the commas outside all brackets and strings."""
    found, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    found.append(text[start:].strip())
    return found


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "([{<":
            depth += 1
        elif text[at] in ")]}>":
            depth -= 1
            if depth == 0:
                return at
    return len(text) - 1


def type_of(text: str) -> tuple[str, str]:
    """The type that `text` begins with, and the rest."""
    text = text.lstrip()
    if text[0] in "[{<":
        end = closing(text, 0) + 1
        return text[:end], text[end:]
    end = re.match(r'%"[^"]+"|\S+', text)
    assert end
    return end[0].rstrip(","), text[end.end() :]


_GROUP_VARIABLE = re.compile(r'^@("[^"]+"|[\w.$]+) = [^@]*\bthread_local(?:\([a-z]+\))? global (.*)$', re.MULTILINE)
_OWN = "_ZN4simt"
"""The mangled namespace of the runtime, whose thread_local variable is no group's."""


def group_variables(text: str) -> dict[str, tuple[int, int]]:
    """(bytes, alignment) of each variable that a group shares, by its symbol (SIMT_GROUP of runtime/cpu.hpp)."""
    types = Types(text.splitlines())
    found = {}
    for match in _GROUP_VARIABLE.finditer(text):
        if not match[1].startswith(_OWN):
            aligned = re.search(r"\balign (\d+)", match[2])
            size, natural = types.layout(type_of(match[2])[0])
            found[match[1]] = size, int(aligned[1]) if aligned else natural
    return found


class Types:
    """The named types of a module, given its lines."""

    def __init__(self, lines: Iterable[str]) -> None:
        named = (re.match(r'(%"[^"]+"|%\S+) = type (.*)', line) for line in lines if line.startswith("%"))
        self._types = {match[1]: match[2] for match in named if match}

    def size(self, written: str) -> int:
        """Bytes that a load of this type reads."""
        return self.layout(written)[0]

    def layout(self, written: str) -> tuple[int, int]:
        """(bytes, alignment) of a type; (0, 1) for what has no known size."""
        if written in _SCALARS:
            return _SCALARS[written], _SCALARS[written]
        if match := re.fullmatch(r"i(\d+)", written):
            size = (int(match[1]) + 7) // 8
            return size, size
        if match := re.fullmatch(r"<(\d+) x (.+)>", written):
            count, element = int(match[1]), match[2]
            size = (count + 7) // 8 if element == "i1" else count * self.size(element)
            return size, size
        if match := re.fullmatch(r"\[(\d+) x (.+)\]", written):
            size, align = self.layout(match[2])
            return int(match[1]) * size, align
        if written in self._types:
            return self.layout(self._types[written])
        packed = written.startswith("<{")
        if packed or written.startswith("{"):
            total, largest = 0, 1
            for member in parts(written.strip("<{}> ")):
                size, align = self.layout(member)
                align = 1 if packed else align
                total, largest = -(-total // align) * align + size, max(largest, align)
            return -(-total // largest) * largest, largest
        return 0, 1
