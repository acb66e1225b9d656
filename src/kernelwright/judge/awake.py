"""Keeps the processors from falling asleep while a clock runs.

A processor with nothing to do sleeps, in a virtual machine it is given back, and waking it takes 5 to 150 us, for one
process more often than for another: as much as a light kernel takes. So a process of ours spins on each of them at the
lowest priority (SCHED_IDLE), which any other thread interrupts at once. It is stopped while no clock runs.
"""

import atexit
import os
import platform
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PAUSE_FOR_EVER = {"x86_64": "f390ebfc", "aarch64": "3f2003d5ffffff17", "arm64": "3f2003d5ffffff17"}
"""pause (yield), and a jump back to it: a neighbour on the same core loses next to nothing."""
_MOST = 16
"""Processors. A larger machine is left to its own ways: so many spinners would cost the clock speed of all."""
_SPIN = """
import ctypes, mmap, os, sys, threading
code, *processors = sys.argv[1:]
ctypes.CDLL(None).prctl(1, 9)  # ends with the thread that started it, also while it is stopped
page = mmap.mmap(-1, mmap.PAGESIZE, prot=7)
page.write(bytes.fromhex(code))
spin = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
def stay(processor):
    os.sched_setaffinity(0, {processor})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    spin()
for processor in processors:
    threading.Thread(target=stay, args=(int(processor),), daemon=True).start()
print(flush=True)
threading.Event().wait()
"""


@contextmanager
def awake() -> Iterator[None]:
    """While inside, no processor that this process may use sleeps. Does nothing where that cannot be had."""
    _spinners.go()
    try:
        yield
    finally:
        _spinners.rest()


class _Spinners:
    """The process that spins, of this process; a fork starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._owner = 0
        self._process: subprocess.Popen[bytes] | None = None

    def go(self) -> None:
        """One user more."""
        with self._lock:
            if self._owner != os.getpid():
                self._owner, self._users, self._process = os.getpid(), 0, None
            self._users += 1
            if self._users == 1:
                self._signal(signal.SIGCONT)
                if self._process is None or self._process.poll() is not None:
                    self._process = self._started()
                    atexit.register(self._end, self._owner)

    def rest(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._signal(signal.SIGSTOP)

    def _end(self, owner: int) -> None:
        if self._process is not None and owner == os.getpid():
            self._process.kill()
            self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    @staticmethod
    def _started() -> subprocess.Popen[bytes] | None:
        code = _PAUSE_FOR_EVER.get(platform.machine())
        processors = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        if code is None or not 0 < len(processors) <= _MOST:
            return None
        words = [sys.executable, "-I", "-S", "-c", _SPIN, code, *map(str, sorted(processors))]
        with suppress(OSError):
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
            )
            assert process.stdout is not None
            process.stdout.read(1)  # before that it might be stopped and not yet end with us; nothing if it cannot spin
            return process
        return None


_spinners = _Spinners()
