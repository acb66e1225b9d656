"""`kernelwright targets|writers|checks`: what there is, in which file, and why it cannot run here."""

import inspect
import os
import re
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from kernelwright.app import options
from kernelwright.app.console import console_for, write_json
from kernelwright.plugins import members


@dataclass(frozen=True)
class Row:
    """A member of a room."""

    name: str
    about: str
    """The first sentence of its docstring."""
    file: str
    missing: str | None
    """Why it cannot run here; None if it can."""


def targets(json_to: options.Json = None) -> None:
    """Lists languages on devices, and says why one cannot run here.

    The JSON: a list of {name, about, file, missing}; missing is null for what can run.
    """
    _show([_row(kind, kind().missing()) for kind in members("targets", "Target").values()], json_to)


def writers(
    target: Annotated[
        str, typer.Option("--target", metavar="DEVICE", help='The device to write for; "auto" takes the best.')
    ] = "auto",
    json_to: options.Json = None,
) -> None:
    """Lists who proposes kernels, and says why one cannot write for this device.

    The JSON: a list of {name, about, file, missing}; missing is null for what can run.
    """
    from kernelwright.search import choose_device

    device = choose_device(target)
    _show([_row(kind, kind().missing(device)) for kind in members("writers", "Writer").values()], json_to)


def checks(json_to: options.Json = None) -> None:
    """Lists what the judge looks for in a candidate.

    The JSON: a list of {name, about, file, missing}; missing is null for what can run.
    """
    _show([_row(kind, None) for kind in members("judge.checks", "Check").values()], json_to)


def _row(kind: type, missing: str | None) -> Row:
    about = re.split(r"(?<=\.)\s", inspect.getdoc(kind) or "", maxsplit=1)[0].replace("\n", " ")
    file = os.path.relpath(inspect.getfile(kind))
    return Row(kind.name, about, inspect.getfile(kind) if file.startswith("..") else file, missing)  # type: ignore[attr-defined]


def _show(rows: list[Row], json_to: str | None) -> None:
    console = console_for(json_to)
    for row in rows:
        console.print(Text(row.name, "bold").append(f"  {row.file}", "not bold dim"), soft_wrap=True)
        if row.missing is not None:
            console.print(Padding(Text(f"not here: {row.missing}", "yellow"), (0, 0, 0, 4)))
        console.print(Padding(Text(row.about), (0, 0, 0, 4)))
    write_json([vars(row) for row in rows], json_to)
