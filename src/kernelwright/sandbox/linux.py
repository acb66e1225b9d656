"""Confines the calling process on Linux: user id, resource limits, Landlock, seccomp. All by ctypes."""

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Sequence

from kernelwright.sandbox.limits import Confinement, Limits
from kernelwright.sandbox.seccomp import program
from kernelwright.sandbox.syscalls import MACHINES, Machine

NOBODY = 65534
_CAP_DAC_READ_SEARCH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 1, 4, 8, 38, 47
_SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC = 1, 1

# Landlock access rights (include/uapi/linux/landlock.h).
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


class Refusal(Exception):
    """A step that failed; `__init__` turns it into a SandboxError. Kept light for the command's start-up."""


def landlock_version() -> int:
    """Version of Landlock's interface; 0 where there is none."""
    found = _libc().syscall(_machine().numbers["landlock_create_ruleset"], None, 0, 1)
    return max(found, 0)


def machine_missing() -> str | None:
    """Why this machine cannot be confined at all."""
    if os.uname().machine not in MACHINES:
        return f"the sandbox knows x86_64 and aarch64 processors, not {os.uname().machine}"
    return None


def confine(
    readable: Sequence[str],
    writable: Sequence[str],
    limits: Limits,
    *,
    devices: Sequence[str] = (),
    execute: bool,
    allow_weaker: bool,
    die_with_parent: bool,
) -> Confinement:
    """See kernelwright.sandbox.confine."""
    libc, machine = _libc(), _machine()
    if len(os.listdir("/proc/self/task")) > 1:
        # Landlock and the capabilities bind the calling thread alone.
        raise Refusal("a process with several threads cannot be confined")
    version = landlock_version()
    if not version and not allow_weaker:
        raise Refusal("this kernel has no Landlock (Linux 5.13 or newer, enabled), so files could not be closed")
    ruleset = _ruleset(libc, machine, version, readable, writable, devices, execute) if version else -1
    if os.geteuid() == 0:
        _become_nobody(libc, writable)
    _give_up_capabilities(libc, machine, execute)
    _limit(limits)
    if die_with_parent:  # only now: a change of user id undoes it
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # No core, and /proc/self belongs to root: nobody else of this user id can look in.
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if version:
        _check(libc.syscall(machine.numbers["landlock_restrict_self"], ruleset, 0), "landlock_restrict_self")
        os.close(ruleset)
    _filter(libc, machine, execute, listen=bool(devices))
    return Confinement("linux", version, True, os.getuid())


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _machine() -> Machine:
    missing = machine_missing()
    if missing:
        raise Refusal(missing)
    return MACHINES[os.uname().machine]


def _check(result: int, what: str) -> int:
    if result < 0:
        raise Refusal(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _ruleset(
    libc: ctypes.CDLL,
    machine: Machine,
    version: int,
    readable: Sequence[str],
    writable: Sequence[str],
    devices: Sequence[str],
    execute: bool,
) -> int:
    every = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        every |= right if version >= since else 0
    network = 3 if version >= 4 else 0  # bind, connect over TCP
    scope = 3 if version >= 6 else 0  # abstract Unix sockets, signals
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = _check(
        libc.syscall(machine.numbers["landlock_create_ruleset"], struct.pack("QQQ", every, network, scope), size, 0),
        "landlock_create_ruleset",
    )
    reading = _READ_FILE | _READ_DIR | (_EXECUTE if execute else 0)
    writing = every & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV) & ~(0 if execute else _EXECUTE)
    commanding = _READ_FILE | _WRITE_FILE | (every & (_IOCTL_DEV | _TRUNCATE))
    for paths, rights in ((readable, reading), (writable, writing), (devices, commanding)):
        for path in paths:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # a grant for what is not there grants nothing
            granted = rights if os.path.isdir(path) else rights & _OF_FILES
            rule = struct.pack("=Qi", granted, place)
            _check(libc.syscall(machine.numbers["landlock_add_rule"], rules, 1, rule, 0), f"landlock rule for {path}")
            os.close(place)
    return rules


def _become_nobody(libc: ctypes.CDLL, writable: Sequence[str]) -> None:
    """Root gives up everything but reading any file, so that a Python under a private home still finds its modules;
    Landlock still decides which. (That right also opens files by handle: the filter denies it.)"""
    for path in writable:
        found = os.stat(path) if os.path.isdir(path) else None
        if found and found.st_uid == 0 and not found.st_mode & 0o002:
            os.chown(path, NOBODY, NOBODY)
    _check(libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0), "keepcaps")
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except PermissionError as error:
        raise Refusal(f"root cannot become nobody here: {error}") from None


def _give_up_capabilities(libc: ctypes.CDLL, machine: Machine, execute: bool) -> None:
    """All but reading any file, and that only if it is held."""
    header = struct.pack("Ii", 0x2008_0522, 0)
    sets = ctypes.create_string_buffer(24)
    _check(libc.syscall(machine.numbers["capget"], header, sets), "capget")
    _, permitted, *_ = struct.unpack("IIIIII", sets.raw)
    keep = permitted & 1 << _CAP_DAC_READ_SEARCH
    inherit = keep if execute else 0  # a compiler started from here needs it too
    clear_all, raise_one = 4, 2
    libc.prctl(_PR_CAP_AMBIENT, clear_all, 0, 0, 0)
    _check(
        libc.syscall(machine.numbers["capset"], header, struct.pack("IIIIII", keep, keep, inherit, 0, 0, 0)), "capset"
    )
    if inherit:
        _check(libc.prctl(_PR_CAP_AMBIENT, raise_one, _CAP_DAC_READ_SEARCH, 0, 0), "ambient capability")


def _limit(limits: Limits) -> None:
    with open("/proc/self/statm") as statm:
        held = int(statm.read().split()[5]) * resource.getpagesize()
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_DATA, limits.memory_bytes and held + limits.memory_bytes),
    ):
        if value or what == resource.RLIMIT_CORE:
            hard = resource.getrlimit(what)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(what, (value, value))


def _filter(libc: ctypes.CDLL, machine: Machine, execute: bool, *, listen: bool) -> None:
    code = program(machine, os.getpid(), execute=execute, listen=listen)
    buffer = ctypes.create_string_buffer(code)
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)))
    result = libc.syscall(machine.numbers["seccomp"], _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, filter_)
    _check(-1 if result else 0, "seccomp")
