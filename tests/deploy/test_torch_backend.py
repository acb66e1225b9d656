"""A region that was proven for a module is found again in the graph dynamo hands to the backend."""

import logging

import pytest
import torch
from torch import nn

from kernelwright.archive import Archive
from kernelwright.deploy import torch_backend
from kernelwright.problems import from_module
from kernelwright.records import (
    Candidate,
    Comparison,
    Entry,
    Problem,
    Range,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)
from kernelwright.targets import environment


class Tied(nn.Module):
    """Shared weights, a buffer, an unread argument, nested results of which one is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.randn(8))

    def forward(self, x: torch.Tensor, unread: torch.Tensor, pair: tuple[torch.Tensor, float]):
        y = torch.relu(self.first(x)) + self.shift
        return {"out": self.second(y) * pair[1], "seen": [x, y, y]}


# Marks its results, so that a test sees who computed them.
KERNEL = """
import torch

from reference import Model


class ModelNew(Model):
    def forward(self, *args, **kwargs):
        return torch.utils._pytree.tree_map(
            lambda value: torch.where(value == value, value, value) * 2, super().forward(*args, **kwargs)
        )
"""


def prove(archive: Archive, problem: Problem, text: str = KERNEL, system: str | None = None) -> Entry:
    """Puts a confirmed winner into the archive. Only its being served is tested here, so the numbers are made up."""
    here = environment("cpu")
    candidate = Candidate(
        "hand", "torch@cpu", (SourceFile("model.py", text), SourceFile("reference.py", problem.source))
    )
    timing = Timing((1.0,), "made up")
    verdict = Verdict(
        candidate.digest,
        problem.digest,
        "torch@cpu",
        Status.PASSED,
        Stage.CONFIRM,
        here if system is None else type(here)(here.facts, system, here.python, here.torch, here.threads),
        timing=timing,
        comparisons=(Comparison("eager", "e", Timing((2.0,), "made up"), 2.0, 1.9, 2.1),),
    )
    archive.add_problem(problem)
    archive.add_candidate(candidate)
    archive.add_verdict(verdict)
    return Entry(candidate, verdict)


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path):
    path = tmp_path / "archive.sqlite"
    monkeypatch.setattr(torch_backend, "open_archive", lambda: Archive(path))
    torch._dynamo.reset()
    torch._dynamo.pgo.reset_code_state()  # else sizes that varied in an earlier test are open in the next
    with Archive(path) as opened:
        yield opened


CALL = (torch.randn(4, 8), torch.randn(3), (torch.randn(2), 0.5))


def test_a_proven_region_is_served(archive: Archive) -> None:
    model = Tied().eval()
    problem, _ = from_module(model, CALL)
    prove(archive, problem)
    compiled = torch.compile(Tied().eval(), backend="kernelwright")
    compiled._orig_mod.load_state_dict(model.state_dict())
    with torch.no_grad():
        want, got = model(*CALL), compiled(*CALL)
        torch.testing.assert_close(got["out"], want["out"] * 2)
        torch.testing.assert_close(got["seen"][1], want["seen"][1] * 2)
        assert got["seen"][0] is CALL[0] and got["seen"][2] is got["seen"][1]
        compiled.first.weight.mul_(3)  # tied: both uses see it
        torch.testing.assert_close(compiled(*CALL)["out"], 2 * compiled._orig_mod(*CALL)["out"])
        compiled.shift = torch.zeros(8)
        torch.testing.assert_close(compiled(*CALL)["out"], 2 * compiled._orig_mod(*CALL)["out"])


def test_other_shapes_autocast_and_gradients_go_to_inductor(archive: Archive) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    problem, _ = from_module(model, (CALL[0],))
    prove(archive, problem)
    compiled = torch.compile(model, backend="kernelwright")
    with torch.no_grad():
        torch.testing.assert_close(compiled(CALL[0]), model(CALL[0]) * 2)
        torch.testing.assert_close(compiled(torch.ones(5, 8)), model(torch.ones(5, 8)))
        torch.testing.assert_close(compiled(torch.ones(6, 8)), model(torch.ones(6, 8)))
        torch.testing.assert_close(compiled(CALL[0]), model(CALL[0]) * 2)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(compiled(CALL[0]), model(CALL[0]), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(compiled(CALL[0]), model(CALL[0]))
    compiled(CALL[0]).sum().backward()
    assert model[0].weight.grad is not None


def test_a_miss_is_noted_once_it_can_be_a_problem(archive: Archive) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval()
    x = torch.randn(4, 8)
    compiled = torch.compile(model, backend="kernelwright")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
    (miss,) = archive.misses("cpu")
    problem, _ = from_module(model, (x,))
    assert miss.problem.region is not None and problem.region is not None
    assert miss.problem.region.digest == problem.region.digest
    prove(archive, miss.problem)  # the miss worked off is what the next compilation finds
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="kernelwright")(x), model(x) * 2)


def test_a_range_serves_every_size_in_it(archive: Archive, tmp_path) -> None:
    from kernelwright.problems import load

    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n"
        "        super().__init__(nn.Linear(8, 8), nn.ReLU())\n"
    )
    problem = load(f"{tmp_path / 'net.py'}:Net", inputs=["f32[2..16,8]"])
    assert problem.dynamic and isinstance(problem.signature.tensors[0].shape[0], Range)
    prove(archive, problem)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    compiled = torch.compile(model, backend="kernelwright")
    with torch.no_grad():
        for rows, factor in ((4, 2), (7, 2), (12, 2), (40, 1)):
            x = torch.randn(rows, 8)
            torch.testing.assert_close(compiled(x), model(x) * factor)


def test_a_kernel_of_another_environment_is_checked_first(archive: Archive, caplog) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    problem, _ = from_module(model, (CALL[0],))
    prove(archive, problem, system="before the upgrade")
    with torch.no_grad(), caplog.at_level(logging.WARNING, "kernelwright"):
        torch.testing.assert_close(torch.compile(model, backend="kernelwright")(CALL[0]), model(CALL[0]))
    assert "passed over" in caplog.text


def test_a_kernel_that_raises_gives_way(archive: Archive, caplog) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    problem, _ = from_module(model, (CALL[0],))
    broken = KERNEL.replace("return", "from kernelwright.errors import LaunchError; raise LaunchError('no'); return")
    prove(archive, problem, broken)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "kernelwright"):
        torch.testing.assert_close(torch.compile(model, backend="kernelwright")(CALL[0]), model(CALL[0]))
    assert "is not used any more: no" in caplog.text


class Tower(nn.Module):
    """Two equal blocks between what nobody has proven."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 12)
        self.blocks = nn.ModuleList(nn.ModuleList([nn.Linear(12, 24), nn.Linear(24, 12)]) for _ in range(2))
        self.last = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(self.first(x))
        for inward, outward in self.blocks:
            x = x + outward(torch.tanh(torch.relu(inward(x)) * 0.5))
        return self.last(torch.cos(x))


def test_proven_pieces_of_a_larger_graph_are_served(archive: Archive) -> None:
    from kernelwright.graph import capture, partition

    model, x = Tower().eval(), torch.randn(4, 8)
    pieces = partition(capture(model, (x,)), 6)
    counts = [sum(piece.region.digest == other.region.digest for other in pieces) for piece in pieces]
    block = pieces[counts.index(2)]
    prove(archive, block.problem("block"), KERNEL.replace("* 2", "* 1"))
    compiled = torch.compile(model, backend="kernelwright")
    served = []
    original = torch_backend.Mixed.__call__
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(
            torch_backend.Mixed, "__call__", lambda self, *values: served.append(self) or original(self, *values)
        )
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        model.blocks[1][0].weight.mul_(3)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    assert len(served) == 2 and sum(isinstance(step.run, torch_backend.Served) for step in served[0]._steps) == 2
    assert len(served[0]._steps) == 4
