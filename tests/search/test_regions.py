"""A large module in pieces: profile, searches by share, and a whole that computes the same."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
import torch

from kernelwright.graph import Piece, build_reference, capture_problem, partition
from kernelwright.problems import arguments, load
from kernelwright.records import (
    Brief,
    Candidate,
    Case,
    Entry,
    Environment,
    Event,
    EventKind,
    Facts,
    Outcome,
    Problem,
    SourceFile,
    Stage,
    Status,
    Timing,
    Trial,
    Verdict,
)
from kernelwright.search import regions
from kernelwright.search.journal import Watch
from kernelwright.search.regions import RegionsWriter, profile, too_large
from kernelwright.targets import load_candidate

HERE = Environment(Facts("cpu", "", ""), system="", python="", torch="", threads=1)
TEXT = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(6)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return torch.softmax(x, dim=-1)


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(4, 16)]
"""


class KeepingBench:
    def __init__(self) -> None:
        self.candidates: list[Candidate] = []

    async def submit(self, candidate: Candidate) -> Verdict:
        self.candidates.append(candidate)
        return Verdict(candidate.digest, "", candidate.target, Status.PASSED, Stage.VERIFY, HERE)

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        raise AssertionError("regions try nothing")


@pytest.fixture
def tower(tmp_path) -> Problem:
    file = tmp_path / "tower.py"
    file.write_text(TEXT)
    return load(f"{file}:Tower")


def test_pieces_are_searched_once_each_and_the_whole_is_right(
    tower: Problem, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "kernelwright")

    def shares(whole: object, pieces: Sequence[Piece], *_: object) -> dict[str, float]:
        (block, _), *rest = Counter(piece.region.digest for piece in pieces).most_common()
        return {block: 0.96, **{digest: 0.04 / len(rest) for digest, _ in rest}}

    monkeypatch.setattr(regions, "profile", shares)
    assert tower.region is not None and 20 < tower.region.operators < 100 and not too_large(tower)
    searched: list[tuple[Problem, float]] = []

    def search_piece(
        problem: Problem, weights: Mapping[str, torch.Tensor], budget_s: float, watch: Watch, stop: threading.Event
    ) -> Outcome:
        searched.append((problem, budget_s))
        build_reference(problem, weights)  # they fit
        kept = "from reference import Model\n\n\nclass ModelNew(Model):\n    pass\n"
        best = Candidate(
            "kept", "torch@cpu", (SourceFile("model.py", kept), SourceFile("reference.py", problem.source))
        )
        verdict = Verdict(
            best.digest, problem.digest, "torch@cpu", Status.PASSED, Stage.CONFIRM, HERE, timing=Timing((1.0,), "")
        )
        watch(Event(EventKind.JUDGED, 1.0, "kept", best.digest, "kept: PASSED, 1.0 us"), Entry(best, verdict))
        return Outcome("", problem, "cpu", (), Entry(best, verdict), "kept won")

    bench = KeepingBench()
    writer = RegionsWriter(search_piece, None, limit=8)
    asyncio.run(writer.write(Brief(tower, "cpu", HERE.facts, budget_s=600.0), bench))
    pieces = partition(capture_problem(tower), 8)
    assert len(pieces) > 6 and len(searched) == 1, "six equal blocks are searched once"
    assert 0.8 * 360 < sum(budget for _, budget in searched) <= 361
    assert "piece 1 of " in caplog.text and ": kept: PASSED, 1.0 us" in caplog.text
    (candidate,) = bench.candidates
    assert candidate.writer == "regions" and "pieces" in candidate.label and candidate.parents
    reference = build_reference(tower)
    stitched = load_candidate(candidate, (), weights=reference.state_dict())
    x = arguments(tower, Case(seed=3))[0]
    with torch.no_grad():
        torch.testing.assert_close(stitched(x), reference(x))


def test_shares_of_the_time_add_up(tower: Problem) -> None:
    whole = capture_problem(tower)
    shares = profile(whole, partition(whole, 8), build_reference(tower), tower)
    assert abs(sum(shares.values()) - 1) < 1e-6
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_where_no_piece_wins_nothing_is_submitted(tower: Problem) -> None:
    def search_piece(problem: Problem, weights, budget_s: float, watch: Watch, stop: threading.Event) -> Outcome:
        return Outcome("", problem, "cpu", (), None, "nothing")

    bench = KeepingBench()
    asyncio.run(
        RegionsWriter(search_piece, None, limit=8).write(Brief(tower, "cpu", HERE.facts, budget_s=600.0), bench)
    )
    assert bench.candidates == []
