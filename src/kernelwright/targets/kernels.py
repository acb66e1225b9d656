"""`kernelwright.compile` and `kernelwright.source`: how Python text gets at its kernels."""

import ast
import json
import linecache
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernelwright.errors import CompileError, UnknownNameError, UsageError
from kernelwright.records import BuildRequest
from kernelwright.targets.broker import broker, language

SOURCES = "__kernelwright_sources__"
"""The global of a candidate's module that maps the names of its files to their text."""

_loaded: dict[tuple[str, str], Any] = {}


def compile(source: str, language: str = "cpp", **options: Any) -> Any:
    """The kernels of `source` as a library: an object with one callable for each.

        lib = kernelwright.compile(text, language="cpp")
        lib.scale(out, x, x.numel(), 2.0)

    Compiles once per content and machine. `options` belong to the language: text, or what JSON can hold.
    Raises CompileError with the compiler's words about the caller's own file and lines, MissingError where the
    language cannot compile here, UnknownNameError for a language that does not exist, UsageError for an option it does
    not have.
    """
    return compiled(source, language, options, sys._getframe(1).f_globals)


def compiled(source: str, language_name: str, options: Mapping[str, Any], caller: dict[str, Any]) -> Any:
    """What `compile` gives; `caller` are the globals of the code that the text belongs to."""
    asked = request(source, language_name, **options)
    try:
        library = rebuild(asked)
    except CompileError as error:
        place = placing(asked, caller)
        raise CompileError(place(error.message), place(error.log)) from None
    if hasattr(library, "belongs_to"):  # it tells of its author's lines later on
        library.belongs_to(caller)
    return library


def request(source: str, language_name: str, **options: Any) -> BuildRequest:
    """What `compile` would ask the broker for."""
    known = getattr(language(language_name), "options", frozenset())
    for name in options:
        if name not in known:
            raise UnknownNameError(f"option of language {language_name}", name, known)
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True) for name, value in options.items()
    }
    return BuildRequest(language_name, source, tuple(sorted(texts.items())))


def rebuild(request: BuildRequest) -> Any:
    """The library of `request`, built or found, and loaded once per process."""
    build = broker().build(request)
    key = (build.path, request.digest)
    if key not in _loaded:
        _loaded[key] = language(request.language).load(Path(build.path), request)
    return _loaded[key]


def placing(asked: BuildRequest, caller: dict[str, Any]) -> Callable[[str], str]:
    """Puts the file and lines that the author knows into what a compiler says, where a file of the caller holds the
    text as it is."""
    compiled: str | None = getattr(language(asked.language), "file", None)
    found = _origin(asked.source, caller)
    if compiled is None or found is None:
        return lambda text: text
    file, first = found
    position = re.compile(rf"\b{re.escape(compiled)}:(\d+)|(?<=in line )(\d+)")

    def moved(match: re.Match[str]) -> str:
        return f"{file}:{int(match[1]) + first - 1}" if match[1] else str(int(match[2]) + first - 1)

    def place(text: str) -> str:
        text = position.sub(moved, text)
        return re.sub(r"^ *(\d+) \|", lambda match: f"{int(match[1]) + first - 1:5} |", text, flags=re.MULTILINE)

    return place


def _origin(text: str, caller: dict[str, Any]) -> tuple[str, int] | None:
    """The file that holds `text` and the number of its first line there: a file of the candidate, or a long string."""
    for name, content in caller.get(SOURCES, {}).items():
        if content == text:
            return name, 1
    path = str(caller.get("__file__", ""))
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value == text and node.end_lineno is not None:
            if node.end_lineno - node.lineno != text.count("\n") or "\n" not in text:
                return None  # its lines are not lines of the file
            return Path(path).name, node.lineno
    return None


def source(name: str) -> str:
    """The text of the file `name`: of the candidate that calls, else beside the file that calls."""
    caller = sys._getframe(1).f_globals
    texts = caller.get(SOURCES)
    if texts is not None:
        if name not in texts:
            raise UnknownNameError("file of this candidate", name, texts)
        return texts[name]
    if "__file__" not in caller:
        raise UsageError(f"kernelwright.source({name!r}) was called from code that has no file; read the text yourself")
    path = Path(caller["__file__"]).parent / name
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"kernelwright.source({name!r}): {path}: {error.strerror}") from None
