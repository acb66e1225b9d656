"""The second baseline is what torch.compile makes of the reference."""

import asyncio
import sysconfig
from typing import Any

import pytest
import torch

from kernelwright.records import Brief, Candidate, Facts, Problem, Range, Signature, TensorSpec, flatten
from kernelwright.targets import load_candidate, prepare
from kernelwright.writers.inductor import MODES, InductorWriter, candidate

SOURCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.shift = torch.arange(float(width))

    def forward(self, x, *, scale):
        y = torch.nn.functional.gelu(self.linear(x)) * scale + self.shift
        return {"sum": y.sum(-1), "all": (y, None)}


def get_init_inputs():
    return [8]
"""


def brief(attempts: int = 8) -> Brief:
    arguments = flatten({"args": [torch.zeros(1)], "kwargs": {"scale": 2.0}}, torch.is_tensor)[1]
    signature = Signature((TensorSpec("x", "float32", (Range(1, 6, 1), 8)),), arguments)
    return Brief(Problem("linear", SOURCE, signature), "cpu", Facts("cpu", "any", "x86_64"), attempts=attempts)


@pytest.mark.parametrize("attempts", [8, 1])
def test_it_proposes_one_candidate_for_each_mode(attempts: int) -> None:
    taken: list[Candidate] = []

    class Collector:
        async def submit(self, candidate: Candidate) -> Any:
            taken.append(candidate)

        async def trial(self, candidates: Any, case: Any) -> Any:
            raise AssertionError("a baseline tries nothing")

    asyncio.run(InductorWriter().write(brief(attempts), Collector()))
    assert [item.title for item in taken] == [f"inductor {mode}" for mode in MODES[:attempts]]
    assert all(item.baseline and item.target == "torch@cpu" for item in taken)


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'null'" in str(InductorWriter().missing("null"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "needs a C++ compiler" in str(InductorWriter().missing("cpu"))
    monkeypatch.setenv("CXX", "true")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    assert "python3-dev" in str(InductorWriter().missing("cpu"))


@pytest.mark.slow
@pytest.mark.skipif(InductorWriter().missing("cpu") is not None, reason="Inductor cannot run here")
def test_the_candidate_computes_what_the_reference_does_and_follows_its_weights() -> None:
    module = load_candidate(candidate(brief(), "default"), [8])
    reference = dict.fromkeys(())
    exec(SOURCE, reference)
    model = reference["Model"](8)
    for rows in (1, 4, 6):  # the example's size is 1, which torch would take for a constant
        model.linear.reset_parameters()
        module.load_state_dict(model.state_dict())
        prepare(module)
        x = torch.randn(rows, 8)
        with torch.no_grad():
            result, expected = module(x, scale=2.0), model(x, scale=2.0)
        assert sorted(result) == ["all", "sum"] and result["all"][1] is None
        torch.testing.assert_close(result["sum"], expected["sum"], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(result["all"][0], expected["all"][0], rtol=1e-4, atol=1e-4)
