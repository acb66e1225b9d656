"""Keeps work that makes noise away from work that measures: a readers-writer lock over threads and processes.

Many may be busy at once (compiling, verifying); one alone may be quiet (timing). Whoever waits for quiet stops new
busy work from beginning, so timing is not starved. Among processes of one home() a file lock does the same, as far as
the operating system's file locks go: a process that is quiet waits until no other is busy.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.home import home


class Gate:
    """`with gate.busy(): ...` shared; `with gate.quiet(): ...` exclusive. Not reentrant.

    `path` is the lock file, home()/gate by default; None keeps to the threads of this process.
    """

    def __init__(self, path: Path | None | str = "") -> None:
        self._path = home() / "gate" if path == "" else path
        self._change = threading.Condition()
        self._busy = 0
        self._quiet = False
        self._waiting = 0
        self._shared: int | None = None

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Shared with all that are busy."""
        with self._change:
            self._change.wait_for(lambda: not self._quiet and not self._waiting)
            self._busy += 1
            if self._busy == 1:
                self._quiet = True  # the file lock may take long: no one else may decide meanwhile
                first = True
            else:
                first = False
        if first:
            shared = self._lock(fcntl.LOCK_SH)
            with self._change:
                self._shared, self._quiet = shared, False
                self._change.notify_all()
        try:
            yield
        finally:
            with self._change:
                self._busy -= 1
                if not self._busy:
                    self._unlock(self._shared)
                    self._shared = None
                self._change.notify_all()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Alone, here and in every other process of this home."""
        with self._change:
            self._waiting += 1
            try:
                self._change.wait_for(lambda: not self._quiet and not self._busy)
                self._quiet = True
            finally:
                self._waiting -= 1
        exclusive = None
        try:
            exclusive = self._lock(fcntl.LOCK_EX)
            yield
        finally:
            with self._change:
                self._unlock(exclusive)
                self._quiet = False
                self._change.notify_all()

    def _lock(self, kind: int) -> int | None:
        if self._path is None:
            return None
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, kind)
        return descriptor

    def _unlock(self, descriptor: int | None) -> None:
        if descriptor is not None:
            os.close(descriptor)
