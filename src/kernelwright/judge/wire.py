"""The judge's end of a child: stop, go on, end; send, and wait for an answer within a time.

Everything that comes from a child is hostile: lengths are bounded, JSON is parsed within limits, nothing blocks.
A child that breaks the rules or ends raises Lost, which Session turns into a Failure.
"""

import json
import os
import secrets
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

from kernelwright.judge import frames

_SLICE_MS = 50
"""How often memory is looked at while waiting."""
_FLOOD_BYTES = 16 << 20
"""A child that prints more is ended."""
_THREADS = 64
"""Of so many of a child's threads it is known how long they waited."""
_OWN = "own"
_WOKEN_NS = 100_000
"""A thread beside the first that ran for less between a go and the next stop was only woken."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


Serve = Callable[[dict[str, Any]], bytes | None]
"""Answers a request of the child; None for a message that is no request."""


Queued = dict[str, tuple[int, int]]
"""By thread: ns it has run and stood in line for a processor so far."""


class Lost(Exception):
    """The child is gone or had to be ended. The message is the reason."""


class Late(Lost):
    """The child did not answer in time and was ended."""


class Wire:
    """One child process. Used by one thread at a time."""

    def __init__(self, pid: int, channel: socket.socket, log: int, told: int) -> None:
        self.pid = pid
        self._channel, self._log, self._told = channel, log, told
        self._pidfd = _pidfd(pid)
        self._user, self._own = 0, -1  # this thread, and its schedstat
        self._links = 0
        self._schedstats: dict[str, int] = {}
        """Open files, by thread: they are read twice in each window."""
        self._inbox = bytearray()
        self._printed = bytearray()
        self._printed_bytes = 0
        self._token = b""
        self._stopped = False
        self._status: int | None = None
        self._open = True
        self._ending = threading.Lock()
        self._closing = threading.RLock()  # a judge that is closed meets the thread that has just lost the child
        self._logging = True
        self._watched = 0.0
        self.log_bytes = 8000
        self.memory_limit = 0
        """Resident bytes over which the child is ended; 0: none."""
        self.peak = 0
        """The most resident bytes seen."""
        channel.setblocking(False)
        os.set_blocking(log, False)
        self._poll = select.poll()
        for descriptor in (channel.fileno(), log, told):
            self._poll.register(descriptor, select.POLLIN)

    # The process

    def stop(self) -> None:
        """Suspends all its threads."""
        if not self._stopped:
            self._signal(signal.SIGSTOP)
            self._stopped = True

    def resume(self) -> None:
        """Undoes `stop`."""
        if self._stopped:
            self._stopped = False
            self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process, from any thread; whoever waits for it meets Lost."""
        with self._ending:
            if self._open:
                self._signal(signal.SIGKILL)

    def close(self) -> None:
        """Ends the process and waits until it is gone. From any thread, and from several at once."""
        with self._closing:
            if not self._open:
                return
            self._signal(signal.SIGKILL)
            self._wait_for_end(5.0)
            self._drain()
            with self._ending:
                self._open = False
                self._channel.close()
                os.close(self._log)
                os.close(self._told)
                for held in [*self._schedstats.values(), *[self._own] * (self._own >= 0)]:
                    os.close(held)
                if self._pidfd is not None and self._pidfd >= 0:
                    os.close(self._pidfd)

    @property
    def text(self) -> str:
        """What it has printed so far, cut."""
        if self._open:
            self._drain()
        text = self._printed.decode(errors="replace")
        return text + "\n[the rest was cut]" if self._printed_bytes > len(self._printed) else text

    def resident_bytes(self) -> int:
        """Memory it holds now, what it shares included; 0 where not known."""
        if sys.platform != "linux":
            return 0
        try:
            with open(f"/proc/{self.pid}/statm") as statm:
                return int(statm.read().split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0

    def peak_bytes(self) -> int:
        """The most memory it has held so far, what it shares included; 0 where not known."""
        if sys.platform == "linux":
            try:
                with open(f"/proc/{self.pid}/status") as status:
                    for line in status:
                        if line.startswith("VmHWM:"):
                            self.peak = max(self.peak, int(line.split()[1]) << 10)
            except OSError:
                pass
        return self.peak

    def queued(self) -> Queued:
        """How long its threads, and this one, have run and stood in line for a processor so far; of none where that is
        not known."""
        if sys.platform != "linux":
            return {}
        task = f"/proc/{self.pid}/task"
        try:
            links = os.stat(task).st_nlink
            if links != self._links:  # a folder for each thread
                self._links, threads = links, os.listdir(task)[:_THREADS]
                for ended in self._schedstats.keys() - threads:
                    os.close(self._schedstats.pop(ended))
                for thread in self._schedstats.keys() ^ set(threads):
                    self._schedstats[thread] = os.open(f"{task}/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return {}
        if threading.get_native_id() != self._user:
            self._user = threading.get_native_id()
            if self._own >= 0:
                os.close(self._own)
            self._own = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return {_OWN: _schedule(self._own)} | {name: _schedule(held) for name, held in self._schedstats.items()}

    def waited_ns(self, before: Queued, after: Queued) -> int:
        """How long its threads that had work to do, and this one, stood in line between two moments. One that only
        slept has none: going on from a stop wakes it too, and it may lie in line behind the one that works, whom that
        does not hold up."""
        total = 0
        for name, (ran, waited) in after.items():
            ran_before, waited_before = before.get(name, (0, 0))
            if name in (_OWN, str(self.pid)) or ran - ran_before >= _WOKEN_NS:
                total += max(0, waited - waited_before)
        return total

    # Messages

    def send(self, body: bytes, files: tuple[int, ...] = (), limit_s: float = 30.0) -> None:
        """Sends a message; the child must be running or the message short."""
        data = memoryview(frames.frame(body))
        deadline = time.monotonic() + limit_s
        writable = select.poll()
        writable.register(self._channel.fileno(), select.POLLOUT)
        try:
            if files:
                sent = socket.send_fds(self._channel, [data[: frames.HEADER.size]], list(files))
                data = data[sent:]
            while data:
                try:
                    data = data[self._channel.send(data) :]
                except BlockingIOError:
                    self._drain()
                    if time.monotonic() > deadline:
                        self._lose(Late(f"did not read its orders within {limit_s:g} s"))
                    writable.poll(_SLICE_MS)
        except OSError:
            self._lose(Lost("closed its channel to the judge"))

    def go(self, more: bytes = b"") -> None:
        """Lets the child run and take the next step of a timed command. `more` goes with the word, a few kilobytes."""
        self._token = secrets.token_bytes(frames.TOKEN_BYTES)
        data = frames.frame(frames.GO + self._token + more)
        self._watched = time.monotonic()
        self.resume()
        try:
            if self._channel.send(data) != len(data):
                self._lose(Lost("does not read its orders"))
        except OSError:
            self._lose(Lost("closed its channel to the judge"))

    def await_done(self, limit_s: float, serve: Serve) -> dict[str, Any] | None:
        """Waits for the echo of the last go: None. A message that comes instead (a failure) is returned."""
        return self._await(limit_s, serve, done=True)

    def await_message(self, limit_s: float, serve: Serve) -> dict[str, Any]:
        """Waits for a message. Those that `serve` answers are answered and waited past; their time does not count."""
        message = self._await(limit_s, serve, done=False)
        assert message is not None
        return message

    def _await(self, limit_s: float, serve: Serve, *, done: bool) -> dict[str, Any] | None:
        deadline = time.monotonic() + limit_s
        while True:
            body = self._next(deadline, limit_s)
            if body[:1] == b"D":
                if not done or body[1:] != self._token:
                    self._lose(Lost("claimed to be done without having been asked"))
                self._token = b""
                return None
            message = self._parse(body)
            began = time.monotonic()
            answer = serve(message)
            if answer is None:
                return message
            self.send(answer)
            deadline += time.monotonic() - began

    def _next(self, deadline: float, limit_s: float) -> bytes:
        while True:
            body = self._take()
            if body is not None:
                return body
            left = deadline - time.monotonic()
            if left <= 0:
                self._lose(Late(f"took more than {limit_s:g} s"))
            ready = {found for found, _ in self._poll.poll(min(_SLICE_MS, left * 1000 + 1))}
            if self._channel.fileno() in ready:
                self._fill()
            if self._log in ready:
                self._drain()
            if self._told in ready and self._channel.fileno() not in ready:
                self._wait_for_end(1.0)
                self._lose(Lost(_ended(self._status)))
            if time.monotonic() - self._watched > _SLICE_MS / 1000:
                self._watch_memory()

    def _fill(self) -> None:
        try:
            part = self._channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            # Gone, or a candidate that closed descriptors. If it ended, its end is told within moments.
            self._wait_for_end(0.2)
            self._lose(Lost(_ended(self._status) if self._status is not None else "closed its channel to the judge"))
        self._inbox += part

    def _take(self) -> bytes | None:
        if len(self._inbox) < frames.HEADER.size:
            return None
        (size,) = frames.HEADER.unpack_from(self._inbox)
        if size > frames.MAX_FRAME or size == 0:
            self._lose(Lost("wrote garbage to its channel to the judge"))
        end = frames.HEADER.size + size
        if len(self._inbox) < end:
            return None
        body = bytes(self._inbox[frames.HEADER.size : end])
        del self._inbox[:end]
        return body

    def _parse(self, body: bytes) -> dict[str, Any]:
        if body[:1] == b"J":
            try:
                message = json.loads(body[1:])
            except (ValueError, RecursionError):
                message = None
            if isinstance(message, dict):
                return message
        self._lose(Lost("wrote garbage to its channel to the judge"))

    def _drain(self) -> None:
        for _ in range(16):
            try:
                part = os.read(self._log, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                if self._logging:
                    self._logging = False
                    self._poll.unregister(self._log)
                return
            self._printed_bytes += len(part)
            self._printed += part[: max(0, self.log_bytes - len(self._printed))]
        if self._printed_bytes > _FLOOD_BYTES:
            self._lose(Lost(f"printed more than {_FLOOD_BYTES >> 20} MB"))

    def _watch_memory(self) -> None:
        self._watched = time.monotonic()
        held = self.resident_bytes()
        self.peak = max(self.peak, held)
        if self.memory_limit and held > self.memory_limit:
            self._lose(Lost(f"used more memory than allowed ({held / 2**20:.0f} MB resident)"))

    def _wait_for_end(self, limit_s: float) -> None:
        if self._status is not None:
            return
        poll = select.poll()
        poll.register(self._told, select.POLLIN)
        if poll.poll(limit_s * 1000):
            data = os.read(self._told, 4)
            self._status = struct.unpack("<i", data)[0] if len(data) == 4 else -1

    def _lose(self, lost: Lost) -> NoReturn:
        self.close()
        raise lost

    def _signal(self, number: int) -> None:
        try:
            if self._pidfd is None:
                os.kill(self.pid, number)
            elif self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            pass


def _pidfd(pid: int) -> int | None:
    """A handle that never means another process; -1 if it is gone already, None where there are no such handles."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    except OSError:
        return None


def _schedule(schedstat: int) -> tuple[int, int]:
    try:
        ran, waited, _ = os.pread(schedstat, 100, 0).split()
        return int(ran), int(waited)
    except (OSError, ValueError):  # the thread has ended
        return 0, 0


def _ended(status: int | None) -> str:
    if status is None or status == -1:
        return "ended"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        names = {signal.SIGSEGV: "a segmentation fault", signal.SIGBUS: "a bus error", signal.SIGABRT: "abort()"}
        names |= {signal.SIGFPE: "a division by zero", signal.SIGILL: "an illegal instruction"}
        names |= {signal.SIGSYS: "a forbidden system call", signal.SIGKILL: "SIGKILL (out of memory?)"}
        return f"crashed: {names.get(signal.Signals(number), signal.Signals(number).name)} ({-number})"
    return f"ended itself with exit code {os.WEXITSTATUS(status)}"
