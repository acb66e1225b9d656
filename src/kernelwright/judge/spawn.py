"""Starts children for sessions: one forkserver (nursery.py) a process, with torch imported once."""

import atexit
import os
import select
import site
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from kernelwright.errors import SandboxError
from kernelwright.judge import frames
from kernelwright.judge.wire import Wire

# What a child may know of its surroundings. A list of what is allowed, since keys have any name.
_KEPT = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD", "KERNELWRIGHT_HOME", "XDG_CACHE_HOME", "HOME", "USER")
_KEPT_PREFIXES = ("LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "DYLD_", "MALLOC_", "PYTHONHASHSEED")
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH")

SETTINGS = {
    # glibc's own upper bounds. Results of timed calls are all held until the window ends; with these their memory comes
    # from the heap that the window before has left, as it would in a loop that drops each result at once.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}
"""Of the children's environment, what changes speed and is not the user's. OMP_* stay as the user has them: a helper
thread of libgomp spins 5 ms after its work, which disturbs nobody since an idle child is stopped."""

_START_S = 120


def environment() -> dict[str, str]:
    """The environment of children: the parts of this process's that they need, and SETTINGS."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name in _KEPT or name.startswith(_KEPT_PREFIXES))
        and not any(word in name.upper() for word in _SECRET_WORDS)
    }
    # Inductor would start a pool of compilers where a candidate imports it.
    kept["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    return kept | {name: value for name, value in SETTINGS.items() if name not in kept}


def settings() -> tuple[tuple[str, str], ...]:
    """What of the children's environment changes speed, sorted: for records.Environment."""
    prefixes = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "MALLOC_")
    return tuple(sorted((name, value) for name, value in environment().items() if name.startswith(prefixes)))


def readable() -> list[str]:
    """What every child may read: this Python, its packages, and a few files of the system."""
    import kernelwright

    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(kernelwright.__file__).parent)]
    packages = ("site-packages", "dist-packages", "lib-dynload")
    found += [entry for entry in sys.path if Path(entry).name in packages or entry == site.getusersitepackages()]
    # An editable install or a wheel unpacked elsewhere: what is imported already may import more of itself.
    for name in ("torch", "numpy"):
        file = getattr(sys.modules.get(name), "__file__", None)
        found += [str(Path(file).parent)] if file else []
    if sys.base_prefix.startswith("/nix/"):
        found.append("/nix/store")
    return [*sorted(set(found)), *_SYSTEM_FILES]


_SYSTEM_FILES = (
    "/usr",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/dev/urandom",
    "/dev/null",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
)


_Ends = tuple[socket.socket, int, int]
"""Of a child: our ends of its channel, its log, and the pipe on which its end is told."""


def _release(ends: _Ends) -> None:
    ends[0].close()
    os.close(ends[1])
    os.close(ends[2])


def _ended(told: int) -> bool:
    poll = select.poll()
    poll.register(told, select.POLLIN)
    return bool(poll.poll(0))


class Forkserver:
    """Starts at the first `spawn`, or ahead of need with `start`. Thread-safe. Ends with this process at the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._spare: _Ends | None = None
        """A child that is being born, or waits: forking takes a third of the time until one is confined."""

    def start(self) -> None:
        """Begins to import torch over there; does not wait for it."""
        with self._lock:
            self._running()

    def spawn(self) -> Wire:
        """A new child, not yet confined: the one that was born ahead; the next is ordered. Raises SandboxError where
        no forkserver can be had."""
        with self._lock:
            try:
                wire = self._born()
            except (OSError, EOFError):
                # It was killed, from outside or for memory: once more with a new one.
                self._process, self._channel = None, None
                try:
                    wire = self._born()
                except (OSError, EOFError) as error:
                    raise SandboxError(f"no child process could be started: {error}") from error
            with suppress(OSError):
                self._spare = self._order()
            return wire

    def close(self) -> None:
        """Ends the forkserver and every child of it."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            if self._spare is not None:
                _release(self._spare)
                self._spare = None
            if self._process is not None:
                try:
                    self._process.wait(5)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
                self._process = None

    def _born(self) -> Wire:
        ordered, self._spare = self._spare or self._order(), None
        assert self._channel is not None
        try:
            answer = self._channel.recv(4, socket.MSG_WAITALL)
            if len(answer) != 4 or self._process is None or self._process.poll() is not None or _ended(ordered[2]):
                raise EOFError("the forkserver, or the child it had ready, ended")
            return Wire(struct.unpack("<I", answer)[0], *ordered)
        except BaseException:
            _release(ordered)
            raise

    def _order(self) -> "_Ends":
        """Asks for a child and does not wait for it: the answer, its process id, is read by `_born`."""
        server = self._running()
        channel, theirs = socket.socketpair()
        log, their_log = os.pipe()
        told, tell = os.pipe()
        try:
            frames.send(server, b"child", (theirs.fileno(), their_log, tell))
        except BaseException:
            _release((channel, log, told))
            raise
        finally:
            theirs.close()
            os.close(their_log)
            os.close(tell)
        return channel, log, told

    def _running(self) -> socket.socket:
        if self._channel is not None and self._process is not None and self._process.poll() is None:
            return self._channel
        ours, theirs = socket.socketpair()
        ours.settimeout(_START_S)
        path = [entry for entry in sys.path if entry and os.path.exists(entry)]
        start = (
            f"import sys; sys.path[:] = {path!r}; from kernelwright.judge.nursery import main; main({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", start],
                env=environment(),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal is the judge's business
                cwd="/",
            )
        self._channel = ours
        return ours


def aside(work: Callable[[], None]) -> None:
    """Does what nobody waits for, one after the other on a thread of its own, at the latest when this process ends."""
    with _lock:
        pid = os.getpid()
        if pid not in _asides:
            _asides.clear()
            _asides[pid] = ThreadPoolExecutor(1, "kernelwright-aside")
        _asides[pid].submit(work)


_asides: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()
_servers: dict[int, Forkserver] = {}


def forkserver() -> Forkserver:
    """This process's forkserver (a forked process gets one of its own)."""
    with _lock:
        pid = os.getpid()
        if pid not in _servers:
            _servers.clear()
            _servers[pid] = Forkserver()
            atexit.register(_servers[pid].close)
        return _servers[pid]
