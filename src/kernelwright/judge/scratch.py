"""Scratch folders of children: one each, named after the judge's process, so that those of killed judges are known."""

import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path

_PREFIX = "kernelwright-scratch-"


def make() -> str:
    """A new folder. Before a process's first, those whose owners have died are removed."""
    _sweep(os.getpid(), tempfile.gettempdir())
    return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


@cache
def _sweep(_: int, folder: str) -> None:
    for left in Path(folder).glob(f"{_PREFIX}*"):
        owner = re.match(rf"{_PREFIX}(\d+)-", left.name)
        if owner and not _lives(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)  # another user's stays


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
