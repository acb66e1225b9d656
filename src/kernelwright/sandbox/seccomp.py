"""A filter of system calls, as a classic BPF program.

It denies what reaches out of the process (network, other processes, other users' rights, the clock, kernel state) and
lets everything else pass; files are Landlock's business. A list of what is allowed would break with each new glibc.
"""

import struct

from kernelwright.sandbox.syscalls import Machine


def _names(text: str) -> list[str]:
    return text.split()


# Reaching other processes, or the kernel itself. Denied whatever the arguments.
_ALWAYS = _names("""
accept accept4 acct add_key adjtimex bind bpf chroot clock_adjtime clock_settime connect delete_module fanotify_init
finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl
ioprio_set kcmp kexec_file_load kexec_load keyctl listen memfd_secret migrate_pages mount mount_setattr move_mount
move_pages mq_open mq_unlink msgctl msgget msgrcv msgsnd name_to_handle_at open_by_handle_at open_tree open_tree_attr
perf_event_open pidfd_getfd pidfd_open pidfd_send_signal pivot_root process_madvise process_mrelease process_vm_readv
process_vm_writev ptrace quotactl quotactl_fd reboot request_key sched_setattr sched_setparam sched_setscheduler
semctl semget semop semtimedop setdomainname sethostname setns setpriority settimeofday shmat shmctl shmget socket
swapoff swapon sync syncfs syslog tkill umount2 unshare userfaultfd vhangup
""")

# Landlock does not cover attributes: an ordinary user's child could change the modes of the user's own files.
# flock: a lock taken on a readable file of the compile cache would hang the broker. memfd_create: memory that no
# limit counts.
_UNLESS_EXEC = _names("""
chmod chown execve execveat fchmod fchmodat fchmodat2 fchown fchownat file_setattr flock fork fremovexattr fsetxattr
futimesat lchown lremovexattr lsetxattr memfd_create removexattr removexattrat setxattr setxattrat utime utimensat
utimes vfork
""")

# A compiler may set the mode of the file it has just written, through its descriptor.
_IF_EXEC = _names("""
chown fchownat fchown fremovexattr fsetxattr lchown lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat
""")

_EPERM = 0x0005_0001
_ENOSYS = 0x0005_0026
_KILL = 0x8000_0000
_ALLOW = 0x7FFF_0000
_CLONE_THREAD = 0x0001_0000
_CLONE_NAMESPACES = 0x7E02_0000
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_AF_UNIX = 1
_LISTENING = ("accept", "accept4", "bind", "listen", "socket")
_SIGNALS_BY_FCNTL = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: make the kernel signal another process
_IOCTLS = (0x8901, 0x8902, 0x5412, 0x541C)  # FIOSETOWN, SIOCSPGRP; TIOCSTI, TIOCLINUX: type into a terminal
_PR_SET_PDEATHSIG = 1


def program(machine: Machine, pid: int, *, execute: bool, listen: bool = False) -> bytes:
    """The filter's instructions. `pid` is the process that may signal itself; `execute` allows new processes, `listen`
    a Unix socket that waits for others and reaches nobody itself, without which NVIDIA's driver does not start."""
    lines = [_load(4), _jump(_EQUAL, machine.audit, 1, 0), _return(_KILL), _load(0)]
    if "fork" in machine.numbers:  # x86_64 has a second set of numbers, from 2^30, for the x32 ABI
        lines += [_jump(_GREATER_EQUAL, 0x4000_0000, 0, 1), _return(_KILL)]
    names = _ALWAYS + (_IF_EXEC if execute else _UNLESS_EXEC)
    for name in names:
        if name in machine.numbers and not (listen and name in _LISTENING):
            lines += [_jump(_EQUAL, machine.numbers[name], 0, 1), _return(_EPERM)]
    if listen:
        stream = [_load(24), _and(0xF), _jump(_EQUAL, _SOCK_STREAM, 2, 0), _jump(_EQUAL, _SOCK_SEQPACKET, 1, 0)]
        stream += [_return(_EPERM)]
        lines += _when(machine, "socket", [_load(16), _jump(_EQUAL, _AF_UNIX, 1, 0), _return(_EPERM), *stream])
    # clone3 passes its flags in memory, where a filter cannot look; glibc falls back to clone.
    lines += _when(machine, "clone3", [_return(_ENOSYS)])
    if execute:
        lines += _when(machine, "clone", [_load(16), _jump(_ANY_BIT, _CLONE_NAMESPACES, 0, 1), _return(_EPERM)])
    else:
        lines += _when(machine, "clone", [_load(16), _jump(_ANY_BIT, _CLONE_THREAD, 1, 0), _return(_EPERM)])
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        lines += _when(machine, name, [_load(16), _jump(_EQUAL, pid, 1, 0), _return(_EPERM)])
    for name in ("prlimit64", "sched_setaffinity"):
        lines += _when(machine, name, [_load(16), _jump(_EQUAL, 0, 2, 0), _jump(_EQUAL, pid, 1, 0), _return(_EPERM)])
    lines += _when(machine, "fcntl", [_load(24), *_none_of(_SIGNALS_BY_FCNTL)])
    lines += _when(machine, "ioctl", [_load(24), *_none_of(_IOCTLS)])
    lines += _when(machine, "prctl", [_load(16), *_none_of((_PR_SET_PDEATHSIG,))])
    # A datagram socket of a pair can still send to any address, so pairs are streams only.
    lines += _when(machine, "socketpair", [_load(24), _and(0xF), _jump(_EQUAL, _SOCK_STREAM, 1, 0), _return(_EPERM)])
    return b"".join([*lines, _return(_ALLOW)])


_EQUAL, _GREATER_EQUAL, _ANY_BIT = 0x15, 0x35, 0x45


def _load(offset: int) -> bytes:
    """Offsets in struct seccomp_data: 0 number, 4 architecture, 16 + 8 i the low half of argument i."""
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def _and(mask: int) -> bytes:
    return struct.pack("HBBI", 0x54, 0, 0, mask)


def _jump(kind: int, value: int, yes: int, no: int) -> bytes:
    return struct.pack("HBBI", kind, yes, no, value)


def _return(action: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, action)


def _none_of(values: tuple[int, ...]) -> list[bytes]:
    lines: list[bytes] = []
    for value in values:
        lines += [_jump(_EQUAL, value, 0, 1), _return(_EPERM)]
    return lines


def _when(machine: Machine, name: str, body: list[bytes]) -> list[bytes]:
    """`body` for the call `name`; what falls through it is allowed."""
    if name not in machine.numbers:
        return []
    body = [*body, _return(_ALLOW)]
    return [_jump(_EQUAL, machine.numbers[name], 0, len(body)), *body]
