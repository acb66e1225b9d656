"""Confines on macOS with a sandbox profile: for `sandbox-exec`, or the calling process by libsandbox.

Apple calls both deprecated and ships both; browsers and coding agents rely on them. No machine of ours has run this.
"""

import ctypes
import os
import resource
from collections.abc import Sequence

from kernelwright.sandbox.limits import Confinement, Limits

# What any process needs to start: the dynamic linker's cache, the system's libraries, randomness.
_SYSTEM = ("/usr/lib", "/usr/share", "/System", "/Library/Apple", "/private/var/db/dyld", "/dev/urandom", "/dev/null")


def profile(readable: Sequence[str | os.PathLike], writable: Sequence[str | os.PathLike], *, execute: bool) -> str:
    """The profile's text: everything denied but reading `readable`, writing `writable`, and what a process needs."""
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-info* (target self))",
        "(allow signal (target self))",
        "(allow sysctl-read)",
        '(allow mach-lookup (global-name "com.apple.system.logger"))',
        "(allow file-read-metadata)",
    ]
    if execute:
        lines += ["(allow process-exec)", "(allow process-fork)"]
    reads = [*_SYSTEM, *(os.fspath(path) for path in (*readable, *writable))]
    lines += ["(allow file-read*", *(f"  {_place(path)}" for path in dict.fromkeys(reads)), ")"]
    lines += ["(allow file-map-executable", *(f"  {_place(path)}" for path in dict.fromkeys(reads)), ")"]
    writes = ["/dev/null", *(os.fspath(path) for path in writable)]
    lines += ["(allow file-write*", *(f"  {_place(path)}" for path in dict.fromkeys(writes)), ")"]
    return "\n".join(lines) + "\n"


def confine(readable: Sequence[str], writable: Sequence[str], limits: Limits, *, execute: bool) -> Confinement:
    """See kernelwright.sandbox.confine."""
    for what, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CPU, limits.cpu_s),
    ):
        if value or what == resource.RLIMIT_CORE:
            resource.setrlimit(what, (value, value))
    library = ctypes.CDLL("/usr/lib/libsandbox.1.dylib")
    message = ctypes.c_char_p()
    text = profile(readable, writable, execute=execute).encode()
    if library.sandbox_init(text, ctypes.c_uint64(0), ctypes.byref(message)):
        raise OSError((message.value or b"sandbox_init failed").decode())
    return Confinement("darwin", 0, False, os.getuid())


def _place(path: str) -> str:
    real = os.path.realpath(path)
    escaped = real.replace("\\", "\\\\").replace('"', '\\"')
    return f'({"subpath" if os.path.isdir(real) or not os.path.exists(real) else "literal"} "{escaped}")'
