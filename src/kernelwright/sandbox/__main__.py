"""`python -m kernelwright.sandbox [--read P]... [--write P]... [--exec] [--memory B] [--cpu S] -- COMMAND...`

Runs a command confined: it reads and writes only below the paths given, and has no network. Without --exec the command
may start no further process. Exit code 125: the sandbox could not be closed, nothing ran; 127: no such command.

It also runs as a plain file under `python -I -S`, which is how `sandbox.command` starts it: no site-packages are
searched, nothing but the standard library is imported.
"""

import os
import sys


def main(words: list[str]) -> int:
    """Parses by hand, since argparse would cost a third of the start-up; returns only on failure."""
    from kernelwright.sandbox.limits import Limits

    reads: list[str] = []
    writes: list[str] = []
    memory = cpu = 0
    execute = False
    rest = list(words)
    while rest and rest[0] != "--":
        flag = rest.pop(0)
        if flag == "--exec":
            execute = True
        elif flag in ("--read", "--write", "--memory", "--cpu") and rest and rest[0] != "--":
            value = rest.pop(0)
            if flag == "--read":
                reads.append(value)
            elif flag == "--write":
                writes.append(value)
            elif flag == "--memory":
                memory = int(value)
            else:
                cpu = int(value)
        else:
            print(__doc__, file=sys.stderr)
            return 0 if flag in ("-h", "--help") else 125
    if len(rest) < 2:
        print(__doc__, file=sys.stderr)
        return 125
    arguments = rest[1:]
    from kernelwright.sandbox import confine

    try:
        # Without --exec this one execve must still happen: the filter then denies forks but not replacing the image.
        confine(reads, writes, Limits(memory, cpu), execute=True, allow_weaker=False)
    except Exception as error:  # whatever it is, nothing may run
        print(f"kernelwright sandbox: {error}", file=sys.stderr)
        return 125
    if not execute:
        import resource

        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    try:
        os.execvp(arguments[0], arguments)
    except OSError as error:
        print(f"kernelwright sandbox: {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    if __package__ in (None, ""):
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        from kernelwright.sandbox.__main__ import main
    sys.exit(main(sys.argv[1:]))
