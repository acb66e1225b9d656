"""Run as a script by test_sandbox.py: confines itself and then tries to get out. Prints JSON, name -> outcome.

An outcome is "allowed" or the name of the error. argv: readable folder, writable folder, a private file elsewhere,
pid of another process of the same user.
"""

import contextlib
import ctypes
import ctypes.util
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from kernelwright.sandbox import Limits, confine
from kernelwright.sandbox.syscalls import MACHINES

READABLE, WRITABLE, PRIVATE, OTHER = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
NUMBERS = MACHINES[os.uname().machine].numbers
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | None) -> int:
    """A raw system call; raises OSError."""
    result = LIBC.syscall(NUMBERS[name], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def thread() -> None:
    done: list[int] = []
    worker = threading.Thread(target=lambda: done.append(1))
    worker.start()
    worker.join()
    assert done


def fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def send_to_address() -> None:
    with socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0] as one:
        one.sendto(b"x", "/dev/log")


def own_signal() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGUSR1)


def open_by_handle() -> None:
    call("open_by_handle_at", -100, b"\0" * 64, 0)


def signal_by_fcntl() -> None:
    import fcntl

    reader, _ = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, OTHER)


def big_file() -> None:
    with open(WRITABLE / "big", "wb") as file:
        file.truncate(1 << 40)


def much_memory() -> None:
    bytearray(1 << 30)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "read_granted": lambda: (READABLE / "file").read_text(),
    "write_granted": lambda: (WRITABLE / "new").write_text("x"),
    "late_import": lambda: __import__("xml.dom.minidom"),
    "thread": thread,
    "own_signal": own_signal,
    "temporary_socketpair": lambda: socket.socketpair(),
    "read_passwd": lambda: Path("/etc/passwd").read_text(),
    "read_private": PRIVATE.read_text,
    "list_private": lambda: os.listdir(PRIVATE.parent),
    "write_private": lambda: PRIVATE.write_text("x"),
    "delete_private": PRIVATE.unlink,
    "rename_private": lambda: PRIVATE.rename(WRITABLE / "stolen"),
    "link_private": lambda: os.link(PRIVATE, WRITABLE / "link"),
    "follow_link": lambda: (os.symlink(PRIVATE, WRITABLE / "soft"), (WRITABLE / "soft").read_text()),
    "chmod_private": lambda: os.chmod(PRIVATE, 0o777),
    "touch_private": lambda: os.utime(PRIVATE),
    "write_readable": lambda: (READABLE / "new").write_text("x"),
    "execute": lambda: subprocess.run(["/bin/true"], check=True),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "fork": fork,
    "internet": lambda: socket.socket(socket.AF_INET),
    "unix_socket": lambda: socket.socket(socket.AF_UNIX),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "send_to_address": send_to_address,
    "other_environment": lambda: Path(f"/proc/{OTHER}/environ").read_bytes(),
    "own_environment": lambda: Path("/proc/self/environ").read_bytes(),
    "kill_other": lambda: os.kill(OTHER, 0),
    "stop_parent": lambda: os.kill(os.getppid(), signal.SIGSTOP),
    "kill_group": lambda: os.killpg(0, 0),
    "kill_everyone": lambda: os.kill(-1, 0),
    "signal_by_pidfd": lambda: os.pidfd_open(OTHER),
    "signal_by_fcntl": signal_by_fcntl,
    "ptrace": lambda: call("ptrace", 16, OTHER, 0, 0),
    "read_memory": lambda: call("process_vm_readv", OTHER, None, 0, None, 0, 0),
    "limits_of_other": lambda: resource.prlimit(OTHER, resource.RLIMIT_CPU),
    "affinity_of_other": lambda: os.sched_setaffinity(OTHER, {0}),
    "open_by_handle": open_by_handle,
    "namespace": lambda: call("unshare", 0x1000_0000),
    "mount": lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, 0),
    "chroot": lambda: os.chroot(WRITABLE),
    "bpf": lambda: call("bpf", 0, None, 0),
    "perf": lambda: call("perf_event_open", None, 0, -1, -1, 0),
    "keyring": lambda: call("keyctl", 0, 0, 0),
    "io_uring": lambda: call("io_uring_setup", 1, None),
    "memfd": lambda: os.memfd_create("x"),
    "shared_memory": lambda: call("shmget", 0, 4096, 0o1600),
    "set_clock": lambda: call("clock_settime", 0, None),
    "become_root": lambda: os.setuid(0),
    "raise_priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    "big_file": big_file,
    "much_memory": much_memory,
}


def outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except BaseException as error:  # whatever stops it
        return type(error).__name__
    return "allowed"


if __name__ == "__main__":
    system = ["/usr", "/lib", "/lib64", sys.prefix, sys.base_prefix]
    with contextlib.suppress(FileNotFoundError):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    confinement = confine([READABLE, *system], [WRITABLE], Limits(memory_bytes=512 << 20, file_bytes=1 << 20))
    print(json.dumps({"uid": confinement.uid, **{name: outcome(attempt) for name, attempt in ATTEMPTS.items()}}))
