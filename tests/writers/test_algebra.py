"""The algebra writer proposes text that computes what the reference computes."""

import asyncio
import sys
from types import ModuleType

import pytest
import torch

from kernelwright.graph import build_reference, example_arguments, load_text
from kernelwright.graph.reference import flatten_call
from kernelwright.records import Brief, Candidate, Facts, Numerics, Problem, Signature, TensorSpec
from kernelwright.writers.algebra import AlgebraWriter

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

CAUSAL = """
import math
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x):
        length = x.shape[1]
        q, k, v = self.qkv(x).view(2, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(8)
        scores = scores + torch.triu(torch.full((length, length), -math.inf), 1)
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(2, length, 32)

def get_init_inputs():
    return []

def get_inputs():
    return [torch.rand(2, 16, 32)]
"""

ONE_OPERATOR = VISION_ATTENTION.replace("B, C, H, W = x.shape", "return torch.relu(x)")


def problem(source: str, shape: tuple[int, ...], **fields: object) -> Problem:
    _, template = flatten_call([torch.empty(0)], {})
    signature = Signature((TensorSpec("x", "float32", shape),), template)
    return Problem("vision attention", source, signature, **fields)  # type: ignore[arg-type]


class Collected:
    """A bench that keeps what it is given."""

    def __init__(self) -> None:
        self.candidates: list[Candidate] = []

    async def submit(self, candidate: Candidate) -> None:
        self.candidates.append(candidate)


def proposed(source: str, shape: tuple[int, ...], attempts: int = 8, **fields: object) -> list[Candidate]:
    bench = Collected()
    brief = Brief(problem(source, shape, **fields), "cpu", Facts("cpu", "", ""), attempts=attempts)
    asyncio.run(AlgebraWriter().write(brief, bench))  # type: ignore[arg-type]
    return bench.candidates


@pytest.mark.parametrize(
    ("source", "shape", "labels"),
    [(VISION_ATTENTION, (2, 32, 8, 8), [""]), (CAUSAL, (2, 16, 32), ["causal", ""])],
    ids=["vision", "causal"],
)
def test_candidates_compute_the_reference(
    monkeypatch: pytest.MonkeyPatch, source: str, shape: tuple[int, ...], labels: list[str]
) -> None:
    found = proposed(source, shape)
    assert [candidate.label for candidate in found] == labels
    reference = build_reference(problem(source, shape))
    x = torch.randn(shape)
    for candidate in found:
        assert candidate.target == "torch@cpu"
        assert [file.path for file in candidate.sources] == ["model.py", "reference.py"]
        text = candidate.sources[0].text
        assert "F.scaled_dot_product_attention" in text
        assert ("is_causal=True" in text) == (candidate.label == "causal")
        module = ModuleType("reference")
        module.__dict__.update(vars(load_text(candidate.sources[1].text, "reference")))
        monkeypatch.setitem(sys.modules, "reference", module)
        init_inputs = module.get_init_inputs()
        model = load_text(text, "model").ModelNew(*init_inputs).eval()
        model.load_state_dict(reference.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(model(x), reference(x))


SUMMED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 96)

    def forward(self, x):
        return (self.first(x) * 1.5).sum(1, keepdim=True)

def get_init_inputs():
    return []

def get_inputs():
    return [torch.rand(16, 32)]
"""


def test_what_leaves_work_out_says_so() -> None:
    assert [candidate.algorithmic for candidate in proposed(SUMMED, (16, 32))] == [True]
    assert not any(candidate.algorithmic for candidate in proposed(VISION_ATTENTION, (2, 32, 8, 8)))


def test_it_keeps_to_its_attempts() -> None:
    assert len(proposed(CAUSAL, (2, 16, 32), attempts=1)) == 1


def test_nothing_is_written_where_nothing_can_be_gained_or_known() -> None:
    assert proposed(ONE_OPERATOR, (2, 32, 8, 8)) == []
    assert proposed(VISION_ATTENTION, (2, 32, 8, 8), opaque="it branches on values") == []
    assert proposed(VISION_ATTENTION, (2, 32, 8, 8), numerics=Numerics(training=True)) == []


def test_it_writes_for_the_cpu() -> None:
    assert AlgebraWriter().missing("cpu") is None
    assert "mps" in (AlgebraWriter().missing("mps") or "")


def test_example_arguments_are_of_the_signature() -> None:
    args, kwargs = example_arguments(problem(CAUSAL, (2, 16, 32)))
    assert not kwargs and args[0].shape == (2, 16, 32)
