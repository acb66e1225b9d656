"""Keeps work that makes noise away from work that measures, among the threads and the processes of one home().

Many may be busy at once (compiling, verifying); one alone may be quiet (timing). Whoever waits keeps the turn, so that
nobody who comes later overtakes: quiet is never starved by a stream of busy work. A compilation of minutes steps aside:
it is stopped while somebody is quiet, and goes on afterwards.
"""

import fcntl
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelwright.home import home

_ASIDE = "gate-aside-"
_HEAL_S = 1.0


class Gate:
    """`with gate.busy(): ...` is shared, `with gate.quiet(): ...` exclusive. Neither may be nested.

    `folder` holds the lock files, home() by default; `Gate.private()` shares with nobody but its own users.
    File locks belong to an open file, so the same two calls serve threads and processes; they end with the process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = home() if folder is None else folder
        self._mine = threading.local()

    @classmethod
    def private(cls) -> "Gate":
        """A gate of its own, in a new temporary folder."""
        return cls(Path(tempfile.mkdtemp(prefix="kernelwright-gate-")))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Shared with all that are busy."""
        self._mine.busy = self._pass(fcntl.LOCK_SH)
        try:
            yield
        finally:
            if self._mine.busy is not None:
                os.close(self._mine.busy)
                self._mine.busy = None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Alone."""
        held = self._pass(fcntl.LOCK_EX)
        try:
            self._signal(signal.SIGSTOP)
            yield
        finally:
            self._signal(signal.SIGCONT)
            os.close(held)

    @contextmanager
    def aside(self) -> Iterator[Callable[[int], None]]:
        """Inside busy(), on its thread: `step(group)` gives the turn back while a process group of the caller's works
        alone, and leaves the group to be stopped and continued by whoever is quiet, here or in another process. At the
        end the turn is taken again. Outside busy() nothing is stopped."""
        marks: list[Path] = []
        owned: list[int] = []
        busy = getattr(self._mine, "busy", None)
        over = threading.Event()

        def step(group: int) -> None:
            if busy is None or marks:
                return
            # Whoever is quiet signals a group only while its owner lives and holds the lock on the group's file.
            marks.append(self._folder / f"{_ASIDE}{group}")
            owned.append(self._lock(marks[0].name, fcntl.LOCK_EX))
            threading.Thread(target=self._keep_going, args=(group, over), daemon=True).start()
            os.close(busy)
            self._mine.busy = None

        try:
            yield step
        finally:
            over.set()
            if marks:
                marks[0].unlink(missing_ok=True)
                os.close(owned[0])
                self._mine.busy = self._pass(fcntl.LOCK_SH)
                _signal_group(_group(marks[0]), signal.SIGCONT)  # stopped before its mark was gone, perhaps

    def _keep_going(self, group: int, over: threading.Event) -> None:
        """Continues a group that was stopped by somebody who then died."""
        while not over.wait(_HEAL_S):
            try:
                held = self._lock("gate", fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:  # somebody is quiet
                continue
            if not over.is_set():
                _signal_group(group, signal.SIGCONT)
            os.close(held)

    def _signal(self, number: int) -> None:
        """To all groups that have stepped aside and whose owners live."""
        for mark in self._folder.glob(f"{_ASIDE}*"):
            try:
                os.close(self._lock(mark.name, fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                _signal_group(_group(mark), number)
            except OSError:
                continue
            else:  # its owner died, and the number may be another's by now
                mark.unlink(missing_ok=True)

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


def _signal_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _group(mark: Path) -> int:
    return int(mark.name.removeprefix(_ASIDE))
