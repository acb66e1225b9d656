"""The template writer proposes kernels that compute what the reference computes, and tunes them by trials."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kernelwright.graph import build_reference, example_arguments
from kernelwright.records import (
    Brief,
    Candidate,
    Case,
    Facts,
    Numerics,
    Problem,
    Signature,
    Status,
    TensorSpec,
    Trial,
)
from kernelwright.targets.program import load_candidate
from kernelwright.writers.template import TemplateWriter

BLOCK = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.softmax(F.gelu(self.norm(x + self.linear(x))) * 0.5, dim=-1)

def get_init_inputs():
    return [48]

def get_inputs():
    return [torch.rand(6, 50, 48)]
"""

WIDE_BLOCK = BLOCK.replace("48", "320")
"""Of rows so long that plans differ in the vectors in flight."""

VISION_ATTENTION = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        B, C, H, W = x.shape
        x = x.view(B, C, H * W).permute(2, 0, 1)
        attended, _ = self.attn(x, x, x)
        x = self.norm(attended + x)
        return x.permute(1, 2, 0).view(B, C, H, W)

def get_init_inputs():
    return [32, 4]

def get_inputs():
    return [torch.rand(2, 32, 8, 8)]
"""

PLAIN = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x @ x.transpose(0, 1)

def get_init_inputs():
    return []

def get_inputs():
    return [torch.rand(8, 8)]
"""


class RecordingBench:
    """Answers trials with given times by label, and keeps what is submitted."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times = times
        self.tried: list[str] = []
        self.submitted: list[Candidate] = []

    async def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        self.tried += [candidate.label for candidate in candidates]
        return tuple(
            Trial(candidate.digest, case.digest, Status.PASSED, self.times.get(candidate.label, 100.0))
            for candidate in candidates
            if self.times
        )

    async def submit(self, candidate: Candidate) -> Any:
        self.submitted.append(candidate)


def problem(source: str, *shape: int, **fields: Any) -> Problem:
    signature = Signature(
        (TensorSpec("x", "float32", shape),), '{"dict": {"args": [{"tensor": 0}], "kwargs": {"dict": {}}}}'
    )
    return Problem("test", source, signature, **fields)


def proposed(given: Problem, times: dict[str, float] | None = None, name: str = "x", **fields: Any) -> RecordingBench:
    """`name` is the processor's."""
    bench = RecordingBench(times or {})
    asyncio.run(TemplateWriter().write(Brief(given, "cpu", Facts("cpu", name, "x86_64", threads=2), **fields), bench))
    return bench


@pytest.mark.parametrize(
    ("source", "init", "shape"), [(BLOCK, [48], (6, 50, 48)), (VISION_ATTENTION, [32, 4], (2, 32, 8, 8))]
)
def test_candidate_computes_the_reference(source: str, init: list[Any], shape: tuple[int, ...]) -> None:
    given = problem(source, *shape)
    bench = proposed(given)
    candidate, *_ = bench.submitted
    assert candidate.target == "cpp@cpu"
    assert [file.path for file in candidate.sources] == ["model.py", "reference.py", "kernels.cpp"]
    assert "layer_norm" in candidate.note
    reference = build_reference(given)
    module = load_candidate(candidate, init, weights=reference.state_dict())
    assert example_arguments(given)
    base = torch.randn(*shape[:-1], 2 * shape[-1])
    for x in (torch.randn(shape), base[..., ::2], torch.randn(3 + torch.Size(shape).numel())[3:].view(shape)):
        with torch.no_grad():
            got, expected = module(x), reference(x)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        assert got.stride() == expected.stride() or not x.is_contiguous()


def labels(bench: RecordingBench) -> list[str]:
    return [candidate.label for candidate in bench.submitted]


def test_the_heuristics_choice_comes_first_and_then_the_fastest() -> None:
    times = {"vec=2": 90.0, "vec=2 recompute": 50.0, "vec=2 recompute grain=4096": 49.9}
    bench = proposed(problem(WIDE_BLOCK, 6, 50, 320), times)
    assert labels(bench)[:2] == ["vec=4", "vec=2 recompute"]
    assert len(bench.tried) == len(set(bench.tried)) <= 13
    assert "library linear vec=4" in bench.tried


def test_second_best_is_submitted_if_close() -> None:
    times = {"vec=8": 50.0, "vec=2": 51.0}
    assert labels(proposed(problem(WIDE_BLOCK, 6, 50, 320), times)) == ["vec=4", "vec=8", "vec=2"]
    assert labels(proposed(problem(WIDE_BLOCK, 6, 50, 320), times, attempts=2)) == ["vec=4", "vec=8"]
    alone = proposed(problem(WIDE_BLOCK, 6, 50, 320), times, attempts=1)
    assert labels(alone) == ["vec=4"] and not alone.tried
    assert labels(proposed(problem(WIDE_BLOCK, 6, 50, 320), {"vec=8": 50.0, "vec=4": 60.0})) == ["vec=4", "vec=8"]


def test_nothing_is_submitted_that_gains_no_more_than_noise() -> None:
    assert labels(proposed(problem(WIDE_BLOCK, 6, 50, 320), {"vec=8": 50.0, "vec=4": 51.0})) == ["vec=4"]
    assert labels(proposed(problem(WIDE_BLOCK, 6, 50, 320), {"vec=8": 50.0, "vec=2": 52.0, "vec=4": 53.0})) == [
        "vec=4",
        "vec=8",
    ]


def test_the_library_s_linear_maps_can_win() -> None:
    bench = proposed(problem(WIDE_BLOCK, 6, 50, 320), {"library linear vec=4": 50.0, "library linear vec=2": 40.0})
    assert labels(bench) == ["vec=4", "library linear vec=2"]
    assert "self.lib.linear" in bench.submitted[0].sources[0].text
    assert "F.linear" in bench.submitted[1].sources[0].text


def test_products_are_not_proposed_where_the_library_s_are_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert labels(proposed(problem(PLAIN, 200, 200), name="AMD EPYC")) == ["vec=4"]
    assert not proposed(problem(PLAIN, 200, 200), name="Intel(R) Xeon(R)").submitted
    bench = proposed(problem(BLOCK, 6, 50, 48), name="Intel(R) Xeon(R)")
    assert "self.lib.linear" in bench.submitted[0].sources[0].text


def test_no_trials_where_time_is_short() -> None:
    bench = proposed(problem(BLOCK, 6, 50, 48), {"vec=8": 1.0}, budget_s=2.0)
    assert not bench.tried and labels(bench) == ["vec=4"]


def test_proposes_nothing_where_nothing_fuses() -> None:
    assert not proposed(problem(PLAIN, 8, 8)).submitted
    assert not proposed(problem(BLOCK, 6, 50, 48, opaque="it cannot be captured")).submitted
    assert not proposed(problem(BLOCK, 6, 50, 48, numerics=Numerics(training=True))).submitted


def test_missing_says_why() -> None:
    assert TemplateWriter().missing("cpu") is None
    assert "CPU only" in (TemplateWriter().missing("mps") or "")
