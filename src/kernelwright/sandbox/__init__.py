"""Closes a process: files, network, other processes, memory, time. Standard library only.

Linux: root becomes nobody, resource limits, Landlock, seccomp. macOS: a sandbox profile. docs/security.md says what
this protects and what it does not.
"""

import os
import sys
from collections.abc import Sequence

from kernelwright.sandbox.limits import Confinement, Limits

__all__ = ["Confinement", "Limits", "command", "confine", "missing", "profile"]


def missing() -> str | None:
    """Why no process can be confined here, as a sentence; None if it can."""
    if sys.platform == "linux":
        from kernelwright.sandbox import linux

        reason = linux.machine_missing()
        if not reason and not linux.landlock_version():
            reason = (
                "this Linux kernel has no Landlock (5.13 or newer, enabled at boot), so files cannot be closed; "
                "KERNELWRIGHT_ALLOW_WEAKER=1 goes on without"
            )
        return reason
    return None if sys.platform == "darwin" else f"there is no sandbox for {sys.platform}; use Linux, WSL 2 or macOS"


def confine(
    readable: Sequence[str | os.PathLike],
    writable: Sequence[str | os.PathLike],
    limits: Limits,
    *,
    devices: Sequence[str | os.PathLike] = (),
    execute: bool = False,
    allow_weaker: bool = False,
    die_with_parent: bool = False,
) -> Confinement:
    """Closes the calling process for good; it must have one thread. Says what was closed.

    Afterwards it reads only below `readable`, writes only below `writable`, opens and commands the device files
    `devices` (where there are any it may listen on a Unix socket, as a GPU's driver does), has no network, reaches no
    other process, and starts none unless `execute`. Root becomes nobody; folders in `writable` that only root may write
    are handed over. `allow_weaker` goes on without Landlock (files open). `die_with_parent`: when the thread that
    started it ends (Linux only). Raises SandboxError: nothing may run then.
    """
    reads, writes = [os.fspath(path) for path in readable], [os.fspath(path) for path in writable]
    try:
        if sys.platform == "linux":
            from kernelwright.sandbox import linux

            return linux.confine(
                reads,
                writes,
                limits,
                devices=[os.fspath(path) for path in devices],
                execute=execute,
                allow_weaker=allow_weaker,
                die_with_parent=die_with_parent,
            )
        if sys.platform == "darwin":
            from kernelwright.sandbox import darwin

            return darwin.confine(reads, writes, limits, execute=execute)
    except Exception as error:  # whatever went wrong, half a sandbox is none
        _refuse(f"the sandbox could not be closed: {error}", error)
    return _refuse(str(missing()))


def profile(readable: Sequence[str | os.PathLike], writable: Sequence[str | os.PathLike], *, execute=False) -> str:
    """The text of a macOS sandbox profile with these rights."""
    from kernelwright.sandbox import darwin

    return darwin.profile(readable, writable, execute=execute)


def command(
    arguments: Sequence[str | os.PathLike],
    *,
    readable: Sequence[str | os.PathLike],
    writable: Sequence[str | os.PathLike],
    limits: Limits = Limits(),
) -> list[str]:
    """The command line that runs `arguments` confined, with processes allowed and network not: for compilers."""
    words = [sys.executable, "-I", "-S", os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")]
    for flag, paths in (("--read", readable), ("--write", writable)):
        for path in paths:
            words += [flag, os.fspath(path)]
    if limits.memory_bytes:
        words += ["--memory", str(limits.memory_bytes)]
    if limits.cpu_s:
        words += ["--cpu", str(limits.cpu_s)]
    return [*words, "--exec", "--", *(os.fspath(word) for word in arguments)]


def _refuse(message: str, cause: BaseException | None = None) -> Confinement:
    from kernelwright.errors import SandboxError

    raise SandboxError(message) from cause
