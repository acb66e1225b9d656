"""What a kernel leaves behind is seen where it slows the operators after it, and noise is not taken for it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import Gate, Judge, Settings
from kernelwright.judge.checks.neighbours import NeighboursCheck
from kernelwright.judge.evidence import Evidence
from kernelwright.judge.fresh import Fresh
from kernelwright.judge.neighbours import Neighbours, found, measure
from kernelwright.judge.session import Expected, Session, SessionSettings
from kernelwright.records import Candidate, Case, Problem, SourceFile, Status, Weight
from kernelwright.targets import LocalBroker


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FILE = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2


def get_inputs():
    return [torch.randn(64, 256)]
"""
THREAD = """
import threading
import time

import torch
from torch import nn


def spin():
    until = time.monotonic() + 0.04
    while time.monotonic() < until:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        threading.Thread(target=spin, daemon=True).start()
        return torch.tanh(x) * 2
"""


FLUSHES = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.ones(1 << 24)

    def forward(self, x):
        self.wide.add_(1.0)
        return torch.tanh(x) * 2
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    path = tmp_path_factory.mktemp("net") / "net.py"
    path.write_text(FILE)
    return problems.load(f"{path}:Net")


def candidate(text: str, baseline: bool = False) -> Candidate:
    return Candidate("test", "torch@cpu", (SourceFile("model.py", text),), baseline=baseline)


@contextmanager
def session(problem: Problem, text: str) -> Iterator[Session]:
    settings = SessionSettings(threads=1)
    with Session(problem, candidate(text), weights={}, broker=LocalBroker(), settings=settings) as made:
        assert made.start().failure is None
        yield made


@pytest.mark.parametrize("text", [THREAD, FLUSHES], ids=["busy thread", "cold caches"])
def test_what_is_left_behind_is_measured(problem: Problem, text: str) -> None:
    inputs = Fresh(problems.arguments(problem, Case()), problem.signature)
    expected = Expected('{"tensor": 0}', ((64, 256),), ("float32",))
    with session(problem, FILE.replace("class Net", "class ModelNew")) as plain, session(problem, text) as mine:
        seen = []
        for _ in range(8):  # on a busy machine the floor is high now and then
            made = measure(plain, mine, inputs, expected)
            assert made is not None
            seen.append(made)
            if made.seen:
                break
    assert any(item.slower > 1.1 for item in seen), seen
    if text == THREAD:
        assert seen[-1].seen, seen


def test_a_confirmation_says_what_became_of_the_neighbours(problem: Problem) -> None:
    settings = Settings(
        pool_seeds=1, fresh_cases=0, rounds=2, confirm_rounds=5, survey=False, session=SessionSettings(threads=1)
    )
    text = FILE.replace("class Net", "class ModelNew")
    with Judge(problem, "cpu", settings=settings, gate=Gate(None)) as judge:
        baseline = candidate(text, baseline=True)
        assert judge.submit(baseline).status is Status.PASSED
        judge.hold(baseline)
        verdict = judge.confirm(candidate(text + "\n"))
        assert verdict.status is Status.PASSED, verdict.reason
        finding = next(item for item in verdict.findings if item.check == "neighbours")
        assert finding.ok and dict(finding.numbers)["low"] > 0, finding
        found = Neighbours(1.8, 1.6, 2.0, 0.02, 300.0)
        told = NeighboursCheck().find(Evidence(neighbours=found))
        assert told is not None and not told.ok and "1.80 times as long" in told.message
        assert told.weight is Weight.INFORM


def test_noise_is_not_taken_for_a_neighbour() -> None:
    drawn = random.Random(3)
    told = 0
    for _ in range(300):
        sample = lambda: 300.0 * drawn.lognormvariate(0, 0.3) * (5 if drawn.random() < 0.1 else 1)
        told += found(*([sample() for _ in range(12)] for _ in range(3))).seen
    assert told <= 3
    quiet = lambda scale: [300.0 * scale * drawn.lognormvariate(0, 0.05) for _ in range(12)]
    assert sum(found(quiet(1), quiet(1), quiet(1.6)).seen for _ in range(50)) >= 48
