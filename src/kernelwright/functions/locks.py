"""One function is compiled at a time in a process: compiling it may compile those that it calls."""

import os
import threading

_lock = threading.RLock()


def compiling() -> threading.RLock:  # type: ignore[valid-type]
    """The lock to hold while compiling."""
    return _lock


def _renew() -> None:
    """In the child of a fork, where the thread that held the lock is not there."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
