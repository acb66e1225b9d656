"""A lock that holds between processes and between threads."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Holds the lock file `path`, waiting for whoever has it, and removes it at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(handle)  # whoever held it before us removed the file meanwhile
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)
