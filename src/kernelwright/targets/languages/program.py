"""Loop programs: C++ text that the loop-nest generator wrote from a Python function, with the entry it is called by."""

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
    """Option `entry`: an entry/program.py Entry as text. Nobody writes this by hand: see the room functions/."""

    name = "program"
    file = _FILE
    options = frozenset({"entry"})

    def key(self, request: BuildRequest) -> Sequence[str]:
        return (*super().key(request), _runtime())

    def unit(self, request: BuildRequest) -> str:
        entry = program.program_entry(program.read(dict(request.options)["entry"]))
        return f'{prelude()}\n{_header()}\n# 1 "{_FILE}"\n{request.source}\n# 1 "entry"\n{entry}\n'

    def load(self, path: Path, request: BuildRequest) -> "LoadedProgram":
        return LoadedProgram(path, program.read(dict(request.options)["entry"]))


class LoadedProgram:
    """A program in this process."""

    def __init__(self, path: Path, entry: program.Entry) -> None:
        self.entry = entry
        self._library = ctypes.CDLL(str(path))
        ctypes.c_void_p.in_dll(self._library, "kernelwright_runtime").value = ctypes.addressof(table())
        self._address = ctypes.cast(getattr(self._library, ENTRY + entry.symbol), ctypes.c_void_p).value
        self.function = getattr(self._library, entry.symbol)
        """int32 (arrays, scalars, results, error), as ctypes sees it; the GIL is released while it runs."""
        self.function.restype = ctypes.c_int32
        self.function.argtypes = [ctypes.c_void_p] * 4

    def bound(self, words: bytearray) -> tuple[Any, Any]:
        """The entry as a builtin function bound to `words`, and what must live as long as it."""
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
