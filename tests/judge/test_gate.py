"""Busy is shared, quiet is alone, and nobody starves: among threads and among processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.judge import gate as gate_file
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


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process group that shows that it runs by what it prints."""
    code = "import time\nwhile True:\n    print('x', flush=True)\n    time.sleep(0.01)\n"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    os.set_blocking(process.stdout.fileno(), False)
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stopped(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None
    time.sleep(0.05)  # it may be about to print
    while process.stdout.read(4096):
        pass
    time.sleep(0.4)
    return not process.stdout.read(4096)


def test_who_steps_aside_is_stopped_while_somebody_is_quiet(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    gate, done, aside = Gate(tmp_path), threading.Event(), threading.Event()
    order: list[str] = []

    def build() -> None:
        with gate.busy():
            with gate.aside() as step:
                step(worker.pid)
                aside.set()
                done.wait(20)
            order.append("back")

    thread = threading.Thread(target=build)
    thread.start()
    assert aside.wait(10)
    with Gate(tmp_path).quiet():  # does not wait for the build
        assert stopped(worker)
        done.set()
        time.sleep(0.1)
        assert order == [], "the turn is taken again only when it is free"
    thread.join(10)
    assert order == ["back"] and not stopped(worker)
    with Gate(tmp_path).quiet():
        assert not stopped(worker), "it is nobody's to stop any longer"
    assert {path.name for path in tmp_path.iterdir()} == {"gate", "gate-turn"}


def test_a_group_whose_owner_died_is_left_alone(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    (tmp_path / f"gate-aside-{worker.pid}").touch()
    with Gate(tmp_path).quiet():
        assert not stopped(worker)
    assert not list(tmp_path.glob("gate-aside-*"))


def test_a_group_goes_on_when_who_stopped_it_has_died(
    tmp_path: Path, worker: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_file, "_HEAL_S", 0.1)
    gate = Gate(tmp_path)
    with gate.busy(), gate.aside() as step:
        step(worker.pid)
        os.killpg(worker.pid, signal.SIGSTOP)
        time.sleep(0.5)
        assert not stopped(worker)


def test_outside_busy_nothing_steps_aside(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    gate = Gate(tmp_path)
    with gate.aside() as step:
        step(worker.pid)
        with gate.quiet():
            assert not stopped(worker)
