"""A Ray cluster of three nodes in this machine: devices by resource, a lost node, and the same answers as here."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kernelwright.archive import Archive
from kernelwright.errors import MissingError, UsageError
from kernelwright.problems import load
from kernelwright.records import Brief, Candidate, Entry, Event, EventKind, Outcome, Problem, SourceFile
from kernelwright.search import search
from kernelwright.search.executors import Executor, executor_named
from kernelwright.search.executors.local import LocalExecutor
from kernelwright.search.executors.ray import Devices, RayExecutor
from kernelwright.targets import environment
from kernelwright.writers import Bench

pytest.importorskip("ray", reason="the package ray is not installed; these tests are opt-in")
pytestmark = pytest.mark.slow

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(4, 8)]
"""
MODEL = """
import time
from reference import Model


class ModelNew(Model):
    def forward(self, x):
        time.sleep({pause_s})
        return super().forward(x) + {off}
"""
COUNT = 8


class ManyWriter:
    """Hands in everything at once: every third is wrong."""

    name, baseline, attempts = "many", False, COUNT

    def missing(self, target: str) -> str | None:
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        def made(place: int) -> Candidate:
            text = MODEL.format(pause_s=0.02 + place / 1000, off=int(place % 3 == 0))
            sources = (SourceFile("model.py", text), SourceFile("reference.py", brief.problem.source))
            return Candidate("many", "torch@null", sources, label=str(place))

        await asyncio.gather(*(bench.submit(made(place)) for place in range(COUNT)))


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    file = tmp_path_factory.mktemp("ray") / "net.py"
    file.write_text(NET)
    return load(f"{file}:Net")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1, resources={"null": 1})
    made.lost = made.add_node(num_cpus=1, resources={"null": 1, "metal_m4": 1, "cuda_h200": 1, "cuda_a100": 1})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


def run(problem: Problem, executor: Executor, watch: Any = None) -> tuple[Outcome, list[Entry], Archive]:
    judged: list[Entry] = []

    def heard(event: Event, entry: Entry | None) -> None:
        if event.kind is EventKind.JUDGED and entry:
            judged.append(entry)
            if watch:
                watch(entry)

    archive = Archive(None)
    writers = ["eager", ManyWriter()]
    outcome = search(problem, "null", writers=writers, budget_s=240, archive=archive, watch=heard, executor=executor)
    return outcome, judged, archive


def statuses(outcome: Outcome) -> dict[str, str]:
    return {entry.candidate.label: entry.verdict.status.value for entry in outcome.entries}


def test_a_node_is_lost_and_every_candidate_has_exactly_one_verdict(cluster: Any, problem: Problem) -> None:
    once = threading.Lock()

    def lose(entry: Entry) -> None:
        if once.acquire(blocking=False):
            threading.Thread(target=cluster.remove_node, args=(cluster.lost,), kwargs={"allow_graceful": False}).start()

    far, judged, archive = run(problem, executor_named("ray"), lose)
    assert len(judged) == COUNT and {entry.candidate.label for entry in judged} == set(map(str, range(COUNT)))
    assert len(archive.verdicts()) == COUNT
    here, _, _ = run(problem, LocalExecutor())
    assert statuses(far) == statuses(here)
    assert sorted(statuses(here).values()) == ["PASSED"] * 5 + ["WRONG_VALUES"] * 3
    assert far.best is None and far.reason == here.reason


def test_a_judge_there_has_the_environment_of_one_here(cluster: Any, problem: Problem) -> None:
    with executor_named("ray").court(problem, "null", None) as court:
        assert court.environment == environment("null")


def test_a_resource_that_nobody_has_is_an_error_after_a_while(cluster: Any, problem: Problem) -> None:
    with pytest.raises(MissingError, match="no node of the cluster carries the resource rocm"):
        with RayExecutor(wait_s=1.0).court(problem, "rocm", None):
            pass


def test_devices_of_several_kinds_must_be_told_apart(cluster: Any) -> None:
    cluster.add_node(num_cpus=1, resources={"cuda_h200": 1, "cuda_a100": 1})
    cluster.wait_for_nodes()
    with pytest.raises(UsageError, match="cuda_a100 and cuda_h200, whose times differ"):
        RayExecutor(wait_s=5.0)._find("cuda")
    assert RayExecutor("#cuda_h200", wait_s=5.0)._find("cuda") == Devices("cuda_h200", 1, 2)


def test_names() -> None:
    assert executor_named("local").name == "local" and executor_named("ray:here:6379").name == "ray"
