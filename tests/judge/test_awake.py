"""The spinners run while somebody is inside, and at no other time."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.judge import awake as module
from kernelwright.judge.awake import awake

linux = pytest.mark.skipif(sys.platform != "linux", reason="SCHED_IDLE is Linux's")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def spun(pid: int) -> int:
    """Clock ticks of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@linux
def test_they_spin_inside_alone() -> None:
    with awake():
        process = module._spinners._process
        if process is None:
            pytest.skip("too many processors, or a machine whose pause is not known")
        until = time.monotonic() + 20
        while spun(process.pid) < 5 and time.monotonic() < until:
            time.sleep(0.05)
        assert spun(process.pid) >= 5
        with awake():
            pass
        assert state(process.pid) != "T", "one is still inside"
    until = time.monotonic() + 5
    while state(process.pid) != "T" and time.monotonic() < until:
        time.sleep(0.01)
    assert state(process.pid) == "T"
    with awake():
        assert module._spinners._process is process
    process.kill()
    process.wait()
    with awake():
        assert module._spinners._process is not process, "one that was killed is replaced"


@linux
def test_they_end_with_their_owner() -> None:
    text = (
        "from kernelwright.judge import awake\n"
        "with awake.awake(): pass\n"
        "made = awake._spinners._process\n"
        "print(made.pid if made else 0, flush=True)\n"
    )
    for ending in ("", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"):
        done = subprocess.run([sys.executable, "-c", text + ending], capture_output=True, text=True)
        pid = int(done.stdout)
        until = time.monotonic() + 5
        while pid and Path(f"/proc/{pid}").exists() and state(pid) != "Z" and time.monotonic() < until:
            time.sleep(0.02)
        assert not pid or not Path(f"/proc/{pid}").exists() or state(pid) == "Z"
