"""Preprocessed Metal text as tokens that join to the same text again, and the place of each in the user's files."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.errors import CompileError

_TOKEN = re.compile(
    r"""(?m)^\#[^\n]*                                # a line marker or a pragma
    |\s+
    |"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
    |[A-Za-z_]\w*
    |\.?\d(?:[eEpP][+-]|[\w.'])*
    |::|->|<<=|>>=|<<|&&|\|\||[-+*/%&|^<>=!]=|\+\+|--
    |.""",
    re.VERBOSE | re.DOTALL,
)
_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"((?:\\.|[^"\\])*)"')
_OPEN = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Place:
    """A line and column of one of the user's files, both from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def split(text: str) -> list[str]:
    """The tokens of `text`, white space and line markers among them; joined they are `text`. `>>` is two tokens."""
    return _TOKEN.findall(text)


class Tokens:
    """Tokens to walk over and to change in place: a change never adds or removes a line."""

    def __init__(self, text: str) -> None:
        self.items = split(text)
        self._original = tuple(self.items)
        self.significant = [i for i, token in enumerate(self.items) if not (token.isspace() or token.startswith("#"))]
        self._rank = {index: rank for rank, index in enumerate(self.significant)}
        self._closing = _matched(self._original)
        self._markers: tuple[list[int], list[tuple[str, int]]] | None = None

    def __getitem__(self, index: int) -> str:
        """The token as it was read."""
        return self._original[index]

    def __contains__(self, index: int) -> bool:
        """Whether there is a token at `index` that is not white space."""
        return index in self._rank

    def __len__(self) -> int:
        return len(self._original)

    def after(self, index: int) -> int:
        """The next token that is not white space; len(self) at the end."""
        rank = self._rank.get(index, bisect_right(self.significant, index) - 1) + 1
        return self.significant[rank] if rank < len(self.significant) else len(self._original)

    def before(self, index: int) -> int:
        """The token before that is not white space; -1 at the start."""
        rank = self._rank[index] - 1 if index in self._rank else bisect_right(self.significant, index - 1) - 1
        return self.significant[rank] if rank >= 0 else -1

    def word(self, index: int) -> str:
        """The token at `index`, "" outside."""
        return self._original[index] if 0 <= index < len(self._original) else ""

    def closing(self, index: int) -> int:
        """The bracket that closes the one at `index`. Raises CompileError."""
        if index not in self._closing:
            raise self.error(index, f"this {self._original[index]!r} is never closed")
        return self._closing[index]

    def closing_angle(self, index: int) -> int:
        """The `>` that ends the template arguments which begin at `index`. Raises CompileError."""
        depth, at = 0, index
        while at < len(self._original):
            token = self._original[at]
            if token in _OPEN:
                at = self.closing(at)
            elif token == "<" and (at == index or self.opens_arguments(at)):
                depth += 1
            elif token == ">":
                depth -= 1
                if depth == 0:
                    return at
            elif token in (";", "{", "}"):
                break
            at += 1
        raise self.error(index, "these template arguments are never closed")

    def opens_arguments(self, index: int) -> bool:
        """Whether this `<` follows a name; behind a bracket or a number it compares."""
        return self.word(self.before(index)).isidentifier()

    def blank(self, first: int, last: int) -> None:
        """Takes the tokens first..last away and keeps their line ends."""
        for at in range(first, last + 1):
            token = self.items[at]
            if not token.startswith("#"):
                self.items[at] = token if token.isspace() else ""

    def text(self, first: int, last: int) -> str:
        """The words first..last as they stand now, white space made single blanks."""
        kept = (token for token in self.items[first : last + 1] if not token.startswith("#"))
        return " ".join("".join(kept).split())

    def joined(self) -> str:
        """The whole text as it stands now."""
        return "".join(self.items)

    def place(self, index: int) -> Place:
        """Where the token stands in the user's own files."""
        if self._markers is None:
            starts, marks, line, file = [0], [("", 1)], 1, ""
            for at, token in enumerate(self._original):
                match = _MARKER.match(token) if token.startswith("#") else None
                if match:
                    file, line = match[2], int(match[1]) - 1
                    starts.append(at)
                    marks.append((file, line))
            self._markers = starts, marks
        starts, marks = self._markers
        start = bisect_right(starts, index) - 1
        file, line = marks[start]
        before = "".join(self._original[starts[start] : index])
        return Place(file, line + before.count("\n"), len(before) - (before.rfind("\n") + 1) + 1)

    def error(self, index: int, message: str) -> CompileError:
        """A CompileError that names the place of a token."""
        place = self.place(min(index, len(self._original) - 1))
        return CompileError(f"{place}: error: {message}")


def _matched(items: Sequence[str]) -> dict[int, int]:
    """For each opening bracket its closing one."""
    open_at: list[int] = []
    found = {}
    for at, token in enumerate(items):
        if token in _OPEN:
            open_at.append(at)
        elif token in (")", "]", "}"):
            while open_at and _OPEN[items[open_at[-1]]] != token:
                open_at.pop()
            if open_at:
                found[open_at.pop()] = at
    return found


def separated(tokens: Tokens, first: int, last: int) -> list[tuple[int, int]]:
    """The ranges between the commas of first..last at depth 0 of every kind of bracket, template ones included."""
    ranges, start, at, angles = [], first, first, 0
    while at <= last:
        token = tokens[at]
        if token in _OPEN:
            at = tokens.closing(at)
        elif token == "<" and tokens.opens_arguments(at):
            angles += 1
        elif token == ">" and angles:
            angles -= 1
        elif token == "," and angles == 0:
            ranges.append((start, at - 1))
            start = at + 1
        at += 1
    ranges.append((start, last))
    return [(a, b) for a, b in ranges if any(_solid(tokens[i]) for i in range(a, b + 1))]


def words(tokens: Tokens, first: int, last: int) -> Sequence[int]:
    """The indices of the words first..last that are neither white space nor markers."""
    return [i for i in range(first, last + 1) if _solid(tokens[i])]


def _solid(token: str) -> bool:
    return not (token.isspace() or token.startswith("#"))
