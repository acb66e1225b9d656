"""The compiler's words in the user's own terms: Metal's types, and lines as they stand in the user's files."""

import re
from pathlib import Path

from kernelwright.errors import CompileError
from kernelwright.metal.frontend import Source
from kernelwright.metal.preprocess import SHIM
from kernelwright.metal.tokens import split

_PLACE = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?P<rest>.*)$")
_SNIPPET = re.compile(r"^\s*\d* \|")
_SPACES = (
    (re.compile(r"__global_device\b|__attribute__\(\(opencl_global_device\)\)"), "device"),
    (re.compile(r"(const )?(__global_host\b|__attribute__\(\(opencl_global_host\)\))( const)?"), "constant"),
    (re.compile(r"__local\b|__attribute__\(\(opencl_local\)\)"), "threadgroup"),
    (re.compile(r"\b_Float16\b"), "half"),
    (re.compile(r"\b__bf16\b"), "bfloat"),
    (re.compile(r"\bmetal::vec<(float|int|unsigned int|half|bool), (\d)>"), r"\1\2"),
)


def told(error: CompileError, source: Source, translated: str) -> CompileError:
    """`error` with Metal's words, and each shown line and its caret taken from the user's own file."""
    log = error.log
    if not log:
        return error
    shown = _Lines(source)
    lines: list[str] = []
    ours = False
    for line in log.splitlines():
        match = _PLACE.match(line)
        # Notes inside the shim tell of words that the user never wrote.
        ours = bool(match and match["file"].startswith(str(SHIM)) and match["rest"].startswith("note:")) or (
            ours and not match
        )
        if ours:
            continue
        if match:
            text = shown.line(match["file"], int(match["line"]))
            column = int(match["column"])
            if text is not None:
                column = _column(text, _translated_line(translated, match["file"], int(match["line"])), column)
            lines.append(f"{match['file']}:{match['line']}:{column}: {_metal(match['rest'])}")
            if text is not None:
                lines += [f"    {text}", f"    {_indent(text, column)}^"]
        elif not _SNIPPET.match(line) and not re.match(r"^In file included from", line):
            lines.append(_metal(line))
    summary = next(
        (line for line in lines if ": error: " in line or ": fatal error: " in line),
        _metal(str(error).split("\n", 1)[0]),
    )
    return CompileError(summary, "\n".join(lines))


def _metal(text: str) -> str:
    for pattern, word in _SPACES:
        text = pattern.sub(word, text)
    return text


class _Lines:
    """Lines of the source and of the files it includes."""

    def __init__(self, source: Source) -> None:
        self._known = {source.name: source.text.splitlines()}

    def line(self, file: str, number: int) -> str | None:
        if file not in self._known:
            try:
                self._known[file] = Path(file).read_text().splitlines()
            except (OSError, UnicodeDecodeError):
                self._known[file] = []
        lines = self._known[file]
        return lines[number - 1] if 0 < number <= len(lines) else None


def _translated_line(text: str, file: str, number: int) -> str:
    """The line of the translation that stands for line `number` of `file`."""
    at, here = 0, ""
    for line in text.split("\n"):
        match = re.match(r'#\s*(?:line\s+)?(\d+)\s+"([^"]*)"', line)
        if match:
            at, here = int(match[1]) - 1, match[2]
            continue
        at += 1
        if here == file and at == number:
            return line
    return ""


def _column(original: str, translated: str, column: int) -> int:
    """Where the word at `column` of the translation stands in the original: the same word, counted alike."""
    before, start = 0, 0
    words: list[tuple[int, str]] = []
    for token in split(translated):
        words.append((start, token))
        start += len(token)
    here = next((token for at, token in reversed(words) if at < column), "")
    before = sum(token == here for at, token in words if at + len(token) < column)
    start = 0
    for token in split(original):
        if token == here:
            if before == 0:
                return start + 1
            before -= 1
        start += len(token)
    return len(original) - len(original.lstrip()) + 1


def _indent(text: str, column: int) -> str:
    return "".join("\t" if letter == "\t" else " " for letter in text[: column - 1])
