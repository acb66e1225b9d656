"""The first baseline is the reference itself."""

import asyncio
from typing import Any

import torch

from kernelwright.records import Brief, Candidate, Facts, Problem, Signature, TensorSpec, flatten
from kernelwright.targets import load_candidate
from kernelwright.writers.eager import EagerWriter

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_init_inputs():
    return [8]
"""


class Collector:
    """A bench that only takes notes."""

    def __init__(self) -> None:
        self.candidates: list[Candidate] = []

    async def submit(self, candidate: Candidate) -> Any:
        self.candidates.append(candidate)

    async def trial(self, candidates: Any, case: Any) -> Any:
        raise AssertionError("a baseline tries nothing")


def brief() -> Brief:
    arguments = flatten({"args": [torch.zeros(1)], "kwargs": {}}, torch.is_tensor)[1]
    signature = Signature((TensorSpec("x", "float32", (4, 8)),), arguments)
    return Brief(Problem("linear", SOURCE, signature), "cpu", Facts("cpu", "any", "x86_64"))


def test_it_proposes_the_reference() -> None:
    bench = Collector()
    asyncio.run(EagerWriter().write(brief(), bench))
    (candidate,) = bench.candidates
    assert (candidate.title, candidate.target, candidate.baseline) == ("eager", "torch@cpu", True)
    module = load_candidate(candidate, [8])
    torch.manual_seed(0)
    expected = torch.nn.Linear(8, 8)
    x = torch.randn(4, 8)
    torch.testing.assert_close(module(x), torch.relu(expected(x)), rtol=0, atol=0)


def test_it_says_where_it_cannot_write() -> None:
    assert EagerWriter().missing("cpu") is None
    assert "'null'" in str(EagerWriter().missing("null"))
