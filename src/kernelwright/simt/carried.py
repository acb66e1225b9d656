"""A compiled unit in one folder, to be opened by a process that compiles nothing and sees no other cache.

The folder holds the shared library, that of the worker threads, and carried.json: entries, width, what kind of build.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.simt import cpu
from kernelwright.simt.check_build import TABLES, watched_library
from kernelwright.simt.compiling import build, pool_library
from kernelwright.simt.library import Library
from kernelwright.simt.store import RECORD, Stored
from kernelwright.simt.unit import Entry, Parameter, Unit

__all__ = ["carry", "opened"]

_CARRIED = "carried.json"
_LIBRARY = "library.so"
_POOL = "pool.so"


def carry(unit: Unit, folder: Path, *, check: bool = False) -> Path:
    """Compiles all entries of `unit` for the CPU into `folder`, watched where `check` is set, and returns the record.

    Raises CompileError, MissingError.
    """
    made = build(unit, [entry.name for entry in unit.entries], check=check, count=check)
    shutil.copy(made.path, folder / _LIBRARY)
    shutil.copy(pool_library(), folder / _POOL)
    if check:
        shutil.copy(made.path.parent / TABLES, folder / TABLES)
    record = {
        "entries": [asdict(entry) for entry in made.entries.values()],
        "width": unit.simd_width,
        "watched": check,
        "build": json.loads((made.path.parent / RECORD).read_text()),
    }
    path = folder / _CARRIED
    path.write_text(json.dumps(record))
    return path


def opened(path: Path) -> Library:
    """The library whose record lies at `path`. Nothing is written and nothing else is read."""
    record = json.loads(path.read_text())
    entries = tuple(map(_entry, record["entries"]))
    stored = Stored(path.parent, record["build"], cached=True)
    cpu.use_pool(path.parent / _POOL)
    if record["watched"]:
        return watched_library(path.parent / _LIBRARY, entries, record["width"], stored, check=True, count=True)
    return cpu.library(path.parent / _LIBRARY, entries, stored)


def _entry(fields: Mapping[str, Any]) -> Entry:
    return Entry(**{**fields, "parameters": tuple(Parameter(**parameter) for parameter in fields["parameters"])})
