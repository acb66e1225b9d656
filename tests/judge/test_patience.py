"""The user's own code that does not end, or wants to end the process, ends in a sentence."""

import os
import threading
import time
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.errors import ProblemError
from kernelwright.judge.patience import patience
from kernelwright.judge.reference import Reference
from kernelwright.records import Case


def test_what_does_not_end_is_ended() -> None:
    with (
        pytest.raises(ProblemError, match=r"the reference did not end within 0\.05 s"),
        patience(0.05, "the reference"),
    ):
        x = torch.ones(3)
        while True:
            try:
                x = x * 1.0
            except Exception:
                pass
    with pytest.raises(ProblemError, match="did not end"), patience(0.05, "it"):
        caught = 0
        while caught < 1000:  # told again: a bare except swallows it
            try:
                time.sleep(0.01)
            except BaseException:
                if caught:
                    raise
                caught += 1


def test_what_ends_in_time_is_left_alone() -> None:
    for _ in range(200):  # the limit and the end fall together now and then
        try:
            with patience(0.002, "it"):
                time.sleep(0.0019)
        except ProblemError:
            pass
    time.sleep(0.02)
    with pytest.raises(ValueError, match="its own"), patience(5.0, "it"):
        raise ValueError("its own")


def test_nobody_ends_the_process() -> None:
    real = os._exit
    with pytest.raises(ProblemError, match=r"it wants to end the process \(exit code 3\)"), patience(5.0, "it"):
        os._exit(3)
    with pytest.raises(ProblemError, match="wants to end the process"), patience(5.0, "it"):
        raise SystemExit
    assert os._exit is real
    with patience(5.0, "it"):
        pid = os.fork()
        if not pid:
            os._exit(7)  # a child of a fork may
        other = threading.Thread(target=lambda: None)
        other.start()
        other.join()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


ENDLESS = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        while WHEN:
            pass
        return x * 2


def get_inputs():
    return [torch.rand(4, 4)]
"""


def test_an_endless_reference_is_told_and_one_that_is_so_for_some_inputs_has_no_answer_there(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(ENDLESS.replace("WHEN", "False"))
    problem = problems.load(f"{path}:Net")
    whole = Reference(_with(problem, "False", "True"), None, 0, limit_s=0.3)
    with pytest.raises(ProblemError, match=r"the reference .*inputs nominal.* did not end within 0\.3 s"):
        whole.ask(Case("nominal", 1, hidden=True))
    some = Reference(_with(problem, "False", "x.min() < 0"), None, 0, limit_s=0.3)
    assert some.ask(Case("signed", 1))[1] is None
    assert some.ask(Case("nominal", 1))[1] is not None


def _with(problem, old: str, new: str):
    from dataclasses import replace

    return replace(problem, source=problem.source.replace(old, new))
