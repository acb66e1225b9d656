"""`kernelwright.compile` and `kernelwright.source`: how Python text gets at its kernels."""

import json
import sys
from pathlib import Path
from typing import Any

from kernelwright.errors import UnknownNameError, UsageError
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
    Raises CompileError with the compiler's words, MissingError where the language cannot compile here,
    UnknownNameError for a language that does not exist, UsageError for an option it does not have.
    """
    return rebuild(request(source, language, **options))


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
