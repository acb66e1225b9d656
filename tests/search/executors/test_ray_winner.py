"""The same search on this machine and on a Ray cluster of one node ends with the same winner."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.archive import Archive
from kernelwright.problems import load
from kernelwright.records import Brief, Candidate, SourceFile
from kernelwright.search import search
from kernelwright.search.executors import executor_named
from kernelwright.writers import Bench

pytest.importorskip("ray", reason="the package ray is not installed; this test is opt-in")
pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.timeout(900)]

SLOW = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        for _ in range(60):
            y = torch.tanh(x)
        return y


def get_inputs():
    return [torch.randn(16, 128)]
"""


class QuickWriter:
    """Hands in the same function with fewer of the needless passes, and one that is wrong."""

    name, baseline, attempts = "quick", False, 3

    def missing(self, target: str) -> str | None:
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        source = brief.problem.source
        texts = {f"{passes} passes": source.replace("range(60)", f"range({passes})") for passes in (7, 1)}
        texts["wrong"] = source.replace("tanh(x)", "tanh(x) + 1")
        made = [
            Candidate("quick", "torch@cpu", (SourceFile("model.py", f"{text}\nModelNew = Net\n"),), label=label)
            for label, text in texts.items()
        ]
        await asyncio.gather(*map(bench.submit, made))


@pytest.fixture
def cluster() -> Iterator[None]:
    import ray

    ray.init("local", num_cpus=2, resources={"cpu": 1}, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_the_same_run_has_the_same_winner_here_and_there(tmp_path: Path) -> None:
    file = tmp_path / "slow.py"
    file.write_text(SLOW)
    slow = load(f"{file}:Net")
    writers = ["eager", QuickWriter()]
    here, far = (
        search(slow, "cpu", writers=writers, budget_s=240, archive=Archive(None), executor=executor_named(name))
        for name in ("local", "ray")
    )
    assert here.best and far.best, (here.reason, far.reason)
    assert here.best.candidate == far.best.candidate and far.best.candidate.label == "1 passes"
    assert far.best.verdict.confirmed
    found = {entry.candidate.label: entry.verdict.status.value for entry in far.entries}
    assert found == {entry.candidate.label: entry.verdict.status.value for entry in here.entries}
    assert found["wrong"] == "WRONG_VALUES"
