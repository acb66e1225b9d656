"""The forkserver: a process that has imported torch, has run no operator of it, and forks children on request.

A child is ready in a tenth of a second instead of six. An operator run before the fork would leave the children with
OpenMP threads that do not exist (they hang), so nothing here computes. It runs no candidate itself, holds no keys (its
environment is scrubbed by spawn.py), and dies with the judge: its socket closes, it kills its children and leaves.
"""

import gc
import os
import select
import signal
import socket
import struct
import sys
import sysconfig

from kernelwright import sandbox
from kernelwright.judge import child, frames
from kernelwright.targets.entry.table import table
from kernelwright.targets.names import Names
from kernelwright.targets.surroundings import Surroundings

_ENDS = 3
"""Files that come with a request: the child's channel, its log, and the pipe on which its end is told."""


def main(descriptor: int) -> None:
    """Serves requests on the socket `descriptor` until the judge closes its end."""
    asked = socket.socket(fileno=descriptor)
    _import_ahead()
    names = Names.now()
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, pages shared with the children
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    living: dict[int, int] = {}
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    poll.register(woken, select.POLLIN)
    try:
        while True:
            ready = {found for found, _ in poll.poll()}
            if woken in ready:
                os.read(woken, 4096)
                _bury(living)
            if asked.fileno() in ready:
                _, files = frames.receive(asked)
                if len(files) != _ENDS:
                    return
                pid = _bear(asked, files, [woken, wake, *living.values()], names)
                living[pid] = files[2]
                os.close(files[0])
                os.close(files[1])
                asked.sendall(struct.pack("<I", pid))
    except (EOFError, ConnectionError):
        return
    finally:
        for pid in living:
            os.kill(pid, signal.SIGKILL)


def _bear(asked: socket.socket, files: list[int], foreign: list[int], names: Names) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        asked.close()
        for descriptor in (*foreign, files[2]):
            os.close(descriptor)
        os.dup2(files[1], 1)
        os.dup2(files[1], 2)
        os.close(files[1])
        # While nobody waits: pages shared with the forkserver so far are copied, what all kernels call is looked up.
        Surroundings.now(names)
        table()
        child.main(socket.socket(fileno=files[0]), names)
        code = 0
    finally:
        # No interpreter shutdown, whatever happened: it would run the candidate's destructors, and unwinding into the
        # loop above would have the child believe it is the forkserver.
        os._exit(code)
    return 0


def _bury(living: dict[int, int]) -> None:
    while living:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        told = living.pop(pid, None)
        if told is not None:
            try:
                os.write(told, struct.pack("<i", status))
            except OSError:
                pass  # the judge no longer cares
            os.close(told)


def _import_ahead() -> None:
    """Everything a child needs, imported once. Late imports in children work too, only slower."""
    import kernelwright.graph.reference
    import kernelwright.judge.cuda_ground
    import kernelwright.targets.entry.library
    import kernelwright.targets.program  # noqa: F401
    from kernelwright.targets.broker import language

    sysconfig.get_config_vars()  # reads a file the first time, and the table of each child asks for them
    sandbox.missing()  # imports what this system's needs
    language("cpp")  # finds what is installed, which costs more than a small kernel's build


if __name__ == "__main__":
    main(int(sys.argv[1]))
