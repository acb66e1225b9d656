"""Source text for a page: highlighted, compared, and stripped of what only pretends to be text.

Candidates are hostile: their text is escaped here and nowhere trusted.
"""

import difflib
import re
from dataclasses import dataclass

from markupsafe import Markup, escape

from kernelwright.records import Candidate

# Longer texts are machine-made; a page that holds a dozen of them would not open on a phone.
_MOST_LINES = 1500
_MOST_CHARACTERS = 120_000

# Controls that reorder or hide what a reader sees (CVE-2021-42574), and those that no editor shows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True)
class Line:
    """A line of a diff."""

    kind: str
    """"file", "place", "add", "drop" or "same"."""
    text: str


def visible(text: str) -> str:
    """`text` with every control that hides or reorders it written out: "‹U+202E›"."""
    return _UNSEEN.sub(lambda found: f"‹U+{ord(found[0]):04X}›", text.replace("\r\n", "\n"))


def shorten(text: str) -> tuple[str, int]:
    """As much of `text` as a page bears, and how many lines were left out."""
    lines = text.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARACTERS]
    return shown, len(lines) - shown.count("\n") - 1


def highlight(path: str, text: str) -> Markup:
    """`text` as HTML with pygments' short class names; the language is told by the file's name."""
    from pygments import highlight as paint
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import CppLexer, TextLexer, get_lexer_for_filename
    from pygments.util import ClassNotFound

    if path.endswith(".metal"):  # a dialect of C++ that pygments has no lexer for
        lexer = CppLexer(stripnl=False)
    else:
        try:
            lexer = get_lexer_for_filename(path, stripnl=False)
        except ClassNotFound:
            lexer = TextLexer(stripnl=False)
    return Markup(paint(visible(text), lexer, HtmlFormatter(nowrap=True)))


def difference(before: Candidate, after: Candidate) -> tuple[Line, ...]:
    """A unified diff of all files of two candidates."""
    old = {file.path: file.text for file in before.sources}
    new = {file.path: file.text for file in after.sources}
    lines: list[Line] = []
    for path in new | old:
        changes = difflib.unified_diff(
            visible(old.get(path, "")).splitlines(), visible(new.get(path, "")).splitlines(), lineterm="", n=3
        )
        body = list(changes)[2:]
        if body:
            told = "" if path in old and path in new else ", new" if path in new else ", gone"
            lines.append(Line("file", path + told))
        for line in body:
            kind = {"+": "add", "-": "drop", "@": "place"}.get(line[:1], "same")
            lines.append(Line(kind, line))
    return tuple(lines[:_MOST_LINES])


def as_code(text: str) -> Markup:
    """Plain text, escaped, with what is hidden in it made visible."""
    return escape(visible(text))
