"""A limit on how long the user's own code may take, which runs in this process and on this thread."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelwright.errors import ProblemError

_AGAIN_S = 1.0
"""So often it is told again: a bare `except:` in a loop of its own swallows what it is told."""


class _Overdue(BaseException):
    """Raised inside the code that takes too long; no Exception, so that it does not catch it."""


class _Exit(BaseException):
    """Raised in place of ending the process."""


@contextmanager
def patience(limit_s: float, what: str) -> Iterator[None]:
    """Inside, code that still runs after `limit_s` is ended at its next line of Python, and one that wants to end the
    process does not. Both raise ProblemError, which says that it was `what`.

    What computes within one native call for ever cannot be ended from inside its process.
    """
    me = threading.get_ident()
    over, lock = threading.Event(), threading.Lock()
    told = False

    def watch() -> None:
        nonlocal told
        left = limit_s
        while not over.wait(left):
            with lock:
                if over.is_set():
                    return
                told = True
                _raise_in(me, _Overdue)
            left = _AGAIN_S

    def leave() -> None:
        """Ends the watching, and may be told at any line itself; what was told and not heard is not heard later."""
        while True:
            try:
                over.set()
                with lock:  # whoever was telling has told
                    if told:  # else CPython would look for the exception at every line from now on
                        _raise_in(me, None)
                return
            except _Overdue:
                continue

    watcher = threading.Thread(target=watch, name="kernelwright-patience", daemon=True)
    with _exits.refused(me):
        try:
            try:
                watcher.start()
                yield
            finally:
                leave()
            if told:
                raise _Overdue
        except _Overdue:
            leave()
            raise ProblemError(f"{what} did not end within {limit_s:g} s") from None
        except (_Exit, SystemExit) as error:
            code = f" (exit code {error.args[0]})" if error.args else ""
            raise ProblemError(f"{what} wants to end the process{code}; it must return, or raise") from None


class _Exits:
    """os._exit as it is while some threads run code that must not call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: list[int] = []
        self._real: Callable[[int], Any] | None = None

    @contextmanager
    def refused(self, thread: int) -> Iterator[None]:
        with self._lock:
            if not self._threads:
                self._real, os._exit = os._exit, self._leave  # type: ignore[assignment]
            self._threads.append(thread)
        try:
            yield
        finally:
            with self._lock:
                self._threads.remove(thread)
                if not self._threads and self._real is not None:
                    os._exit = self._real  # type: ignore[assignment]

    def _leave(self, status: int = 0) -> None:
        if threading.get_ident() in self._threads and os.getpid() == _PROCESS:
            raise _Exit(status)
        assert self._real is not None
        self._real(status)


_PROCESS = os.getpid()
"""A child of a fork ends itself by os._exit, whatever its parent's threads are doing."""
_exits = _Exits()


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    told = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), told)
