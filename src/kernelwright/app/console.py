"""Where words go: results to stdout, or only JSON there and everything else to stderr."""

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from rich.console import Console

from kernelwright.errors import UsageError


def console_for(json_to: str | None) -> Console:
    """The console for people: stderr where stdout carries JSON. Raises UsageError for a place that takes no JSON."""
    if json_to not in (None, "-"):
        refuse_unwritable(Path(json_to))
    return Console(stderr=json_to == "-", highlight=False, markup=False)


def refuse_unwritable(file: Path) -> None:
    """Raises UsageError where `file` cannot be written, before hours are spent on what it is to hold."""
    if file.is_dir():
        raise UsageError(f"cannot write {file}: it is a folder")
    refuse_folder(file.parent, file)


def refuse_folder(folder: Path, wanted: Path | None = None) -> None:
    """Raises UsageError where nothing can be written into `folder`, which need not exist yet."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"cannot write {wanted or folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {wanted or folder}: no permission to write into {there}")


def aside(json_to: str | None) -> AbstractContextManager[object]:
    """A context in which what the user's own files print does not get between the JSON on stdout."""
    return redirect_stdout(sys.stderr) if json_to == "-" else nullcontext()


def write_json(value: Any, json_to: str | None) -> None:
    """Writes `value` to a file, or to stdout for "-"; nothing where no JSON was asked for. Raises UsageError."""
    if json_to is None:
        return
    text = json.dumps(value, indent=2, allow_nan=False)
    if json_to == "-":
        sys.stdout.write(text + "\n")
        return
    try:
        Path(json_to).parent.mkdir(parents=True, exist_ok=True)
        Path(json_to).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write JSON to {json_to}: {error.strerror}") from error
