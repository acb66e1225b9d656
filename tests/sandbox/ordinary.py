"""Run as a script by tests that want to be an ordinary user where the suite runs as root: `ordinary.py COMMAND...`.

The user owns nothing and may signal nobody. It keeps the right to read any file, as root's Python may lie under a home
that nobody else can enter; so it is the sandbox, and not the user id, that must keep files closed.
"""

import ctypes
import os
import struct
import sys

from kernelwright.sandbox.syscalls import MACHINES

UID = 12345
_READ_SEARCH = 2

if __name__ == "__main__":
    libc = ctypes.CDLL(None)
    libc.prctl(8, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    bits = 1 << _READ_SEARCH
    number = MACHINES[os.uname().machine].numbers["capset"]
    header, sets = struct.pack("Ii", 0x2008_0522, 0), struct.pack("IIIIII", bits, bits, bits, 0, 0, 0)
    assert libc.syscall(number, header, sets) == 0
    assert libc.prctl(47, 2, _READ_SEARCH, 0, 0) == 0
    os.execv(sys.argv[1], sys.argv[1:])
