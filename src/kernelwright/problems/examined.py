"""What examining a problem has shown, kept in home()/problems for the next process that brings the same one.

The same is: text, contract and numerics, the values of weights and inputs, torch, and our own rules. So a module that
was optimised before is not run, bounded and traced again.
"""

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch

from kernelwright import graph, records
from kernelwright.graph.identity import content_digest
from kernelwright.home import home
from kernelwright.records import Problem, Region, Signature, decode, digest, encode

_FOREIGN = re.compile(
    r"^\s*(?:from|import) (?!torch\b|collections\b|base64\b|zlib\b)|torch\.ops\.(?!aten\.|prims\.)", re.MULTILINE
)
"""What a text has from elsewhere, where it may change without the text: a class of results, an operator."""


def key_of(problem: Problem, weights: Mapping[str, torch.Tensor], leaves: Sequence[torch.Tensor]) -> str:
    """Names all that an examination of `problem` hangs on. Empty where that has no name: where its text is not all of
    it, or a tensor's content is not plain bytes."""
    if _FOREIGN.search(problem.source):
        return ""
    try:
        named = [(name, _described(weights[name])) for name in sorted(weights)]
        given = [*map(_described, leaves)]
    except (RuntimeError, TypeError):  # sparse or quantised ones, and classes of the user's
        return ""
    return digest("examined", problem.digest, named, given, torch.__version__, _rules())


def keep(problem: Problem, key: str) -> None:
    """Writes down what was found, if the disk has room."""
    path = _path(key)
    found = {"signature": problem.signature, "region": problem.region, "opaque": problem.opaque}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        made.write_text(json.dumps({name: encode(value) for name, value in found.items()}))
        made.replace(path)


def recalled(problem: Problem, key: str) -> Problem | None:
    """`problem` with what was found for it before; None where nothing was."""
    try:
        found = json.loads(_path(key).read_text())
        region = None if found["region"] is None else decode(Region, found["region"])
        return replace(problem, signature=decode(Signature, found["signature"]), region=region, opaque=found["opaque"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none is there, or it is damaged
        return None


def _path(key: str) -> Path:
    return home() / "problems" / key[:2] / f"{key}.json"


def _described(value: torch.Tensor) -> tuple[str, ...]:
    return str(value.dtype), str(tuple(value.shape)), str(value.stride()), content_digest(value)


@cache
def _rules() -> str:
    """Names what makes a region of a text: Python, and the rooms that examine it."""
    rooms = [Path(__file__).parent, *map(Path, [*graph.__path__, *records.__path__])]
    return digest(sys.version, *(path.read_text() for room in rooms for path in sorted(room.rglob("*.py"))))
