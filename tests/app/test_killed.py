"""A search that is killed leaves what was judged, and nothing running."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kernelwright.archive import Archive
from kernelwright.records import Status

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.softmax(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6), -1)


def get_inputs():
    return [torch.randn(64, 256)]
"""

PATIENCE_S = 120
"""On a busy machine; a quiet one needs a tenth of it."""


def test_kill_9_loses_at_most_what_is_in_flight(tmp_path: Path) -> None:
    net = tmp_path / "net.py"
    net.write_text(NET)
    archive, log = tmp_path / "archive.sqlite", tmp_path / "log"
    command = [sys.executable, "-m", "kernelwright.app.cli", "optimize", f"{net}:Net", "--target", "cpu"]
    command += ["--archive", str(archive), "--out", str(tmp_path / "out"), "--budget", f"{PATIENCE_S}s", "--writers"]

    with log.open("w") as told:
        first = subprocess.Popen([*command, "eager,algebra,template"], stdout=told, stderr=subprocess.STDOUT)
    # Then the template writer is still tuning, and its trials are under way.
    wait_for(lambda: log.read_text().count(" judged ") >= 2 or first.poll() is not None)
    family = descendants(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL, log.read_text()
    assert family or not Path("/proc").is_dir(), "there is a judge and a candidate at least"
    wait_for(lambda: not any(running(pid) for pid in family), 20)

    with Archive(archive) as store:
        (killed,) = store.runs()
        judged = store.verdicts()
        assert not killed.finished and len(judged) >= 2
        assert {verdict.status for verdict in judged} == {Status.PASSED}
        entries = store.outcome(killed.id).entries
        before = {entry.candidate.digest for entry in entries if entry.candidate.writer in ("eager", "algebra")}
        assert before

    second = subprocess.run(
        [*command, "eager,algebra"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert second.returncode == 0, second.stderr
    assert " reused " in second.stdout and " finished " in second.stdout
    with Archive(archive) as store:
        assert [run.finished for run in store.runs()] == [True, False]
        entries = store.outcome(store.runs()[0].id).entries
        assert before <= {entry.candidate.digest for entry in entries}
        assert {verdict.digest for verdict in judged} <= {verdict.digest for verdict in store.verdicts()}


def wait_for(condition, within_s: float = PATIENCE_S) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.05)


def descendants(pid: int) -> set[int]:
    """Children and theirs of the process; empty where there is no /proc."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def running(pid: int) -> bool:
    """False for a zombie too: whoever inherits it may be slow to bury it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
