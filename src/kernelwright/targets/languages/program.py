"""Loop programs: C++ that the loop-nest generator wrote from Python functions, with the entries they are called by."""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.records import BuildRequest, digest
from kernelwright.targets.entry import program
from kernelwright.targets.entry.generate import ENTRY
from kernelwright.targets.entry.library import builtin
from kernelwright.targets.entry.table import table
from kernelwright.targets.languages.cpp import CppLanguage, prelude

_FILE = "program.cpp"


class ProgramLanguage(CppLanguage):
    """Option `entries`: what entry/program.py wrote of Entry objects. Nobody does this by hand: see functions/."""

    name = "program"
    file = _FILE
    options = frozenset({"entries"})

    def key(self, request: BuildRequest) -> Sequence[str]:
        return (*super().key(request), _runtime())

    def unit(self, request: BuildRequest) -> str:
        entries = "\n".join(map(program.program_entry, _entries(request)))
        return f'{prelude()}\n{_header()}\n# 1 "{_FILE}"\n{request.source}\n# 1 "entries"\n{entries}\n'

    def load(self, path: Path, request: BuildRequest) -> "dict[str, LoadedProgram]":
        """The programs by their symbols."""
        library = ctypes.CDLL(str(path))
        ctypes.c_void_p.in_dll(library, "kernelwright_runtime").value = ctypes.addressof(table())
        return {entry.symbol: LoadedProgram(library, entry) for entry in _entries(request)}


def _entries(request: BuildRequest) -> tuple[program.Entry, ...]:
    return program.read(dict(request.options)["entries"])


class LoadedProgram:
    """A program in this process."""

    def __init__(self, library: ctypes.CDLL, entry: program.Entry) -> None:
        self.entry = entry
        self._library = library
        self._address = ctypes.cast(getattr(library, ENTRY + entry.symbol), ctypes.c_void_p).value
        self.function = getattr(library, entry.symbol)
        """int32 (arrays, scalars, results, error), as ctypes sees it; the GIL is released while it runs."""
        self.function.restype = ctypes.c_int32
        self.function.argtypes = [ctypes.c_void_p] * 4

    def bound(self, words: bytearray) -> Any:
        """The entry as a builtin function bound to `words`."""
        assert len(words) == 8 * self.entry.words
        return builtin(self.entry.symbol, "a compiled loop", self._address, words)


@cache
def _header() -> str:
    name = "program.hpp"
    text = (Path(program.__file__).parent.parent / "runtime" / name).read_text()
    return f'# 1 "{name}" 3\n{text}'


@cache
def _runtime() -> str:
    return digest(_header(), Path(program.__file__).read_text())
