"""Keeps work that makes noise away from work that measures, among the threads and the processes of one home().

Many may be busy at once (compiling, verifying); one alone may be quiet (timing). Whoever waits keeps the turn, so that
nobody who comes later overtakes: quiet is never starved by a stream of busy work.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.home import home


class Gate:
    """`with gate.busy(): ...` is shared, `with gate.quiet(): ...` exclusive. Neither may be nested.

    `folder` holds the two lock files, home() by default; `Gate.private()` shares with nobody but its own users.
    File locks belong to an open file, so the same two calls serve threads and processes; they end with the process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = home() if folder is None else folder

    @classmethod
    def private(cls) -> "Gate":
        """A gate of its own, in a new temporary folder."""
        return cls(Path(tempfile.mkdtemp(prefix="kernelwright-gate-")))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Shared with all that are busy."""
        held = self._pass(fcntl.LOCK_SH)
        try:
            yield
        finally:
            os.close(held)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Alone."""
        held = self._pass(fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(held)

    def _pass(self, kind: int) -> int:
        turn = self._lock("gate-turn", fcntl.LOCK_EX)
        try:
            return self._lock("gate", kind)
        finally:
            os.close(turn)

    def _lock(self, name: str, kind: int) -> int:
        held = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, kind)
        except BaseException:  # Ctrl-C while waiting: the lock must not stay behind
            os.close(held)
            raise
        return held
