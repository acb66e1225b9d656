"""Busy is shared, quiet is alone, and nobody starves: among threads and among processes."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kernelwright.judge.gate import Gate


def test_many_may_be_busy(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    meeting = threading.Barrier(3, timeout=10)

    def work() -> None:
        with gate.busy():
            meeting.wait()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not meeting.broken


@pytest.mark.parametrize("other", ["busy", "quiet"])
def test_quiet_is_alone(tmp_path: Path, other: str) -> None:
    gate = Gate(tmp_path)
    entered = threading.Event()

    def work() -> None:
        with getattr(gate, other)():
            entered.set()

    with gate.quiet():
        thread = threading.Thread(target=work)
        thread.start()
        assert not entered.wait(0.1)
    assert entered.wait(10)
    thread.join()


def test_quiet_is_not_overtaken(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    order: list[str] = []

    def work(kind: str) -> None:
        with getattr(gate, kind)():
            order.append(kind)

    with gate.busy():
        first = threading.Thread(target=work, args=("quiet",))
        first.start()
        time.sleep(0.1)
        second = threading.Thread(target=work, args=("busy",))
        second.start()
        time.sleep(0.1)
        assert order == []
    first.join(10)
    second.join(10)
    assert order == ["quiet", "busy"]


def test_processes_keep_out_of_each_others_way(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom kernelwright.judge.gate import Gate\n"
        "with Gate(Path(sys.argv[1])).busy():\n    print('busy', flush=True)\n    sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "busy\n"
    entered = threading.Event()

    def work() -> None:
        with Gate(tmp_path).quiet():
            entered.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not entered.wait(0.1)
    process.kill()  # a lock does not outlive its process
    process.wait()
    assert entered.wait(10)
    thread.join()


def test_an_error_inside_lets_go(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with pytest.raises(ValueError), gate.quiet():
        raise ValueError
    with gate.quiet():
        pass


def test_a_private_gate_shares_with_none() -> None:
    with Gate.private().quiet(), Gate.private().quiet():
        pass
