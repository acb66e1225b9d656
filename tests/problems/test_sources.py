"""Checkouts of KernelBench, the suite of the repository, and its examples."""

from pathlib import Path

import pytest

from kernelwright.errors import ProblemError
from kernelwright.plugins import members
from kernelwright.problems import kernelbench_problems, load, suite_problems
from kernelwright.problems.loading import read

EXAMPLES = Path(__file__).parents[2] / "examples"
RELU = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)

batch_size = 16
dim = 64

def get_inputs():
    return [torch.rand(batch_size, dim)]

def get_init_inputs():
    return []  # No special initialization inputs needed"""


@pytest.fixture(params=["KernelBench/level1", "level1", "src/kernelbench/level1"])
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / request.param
    folder.mkdir(parents=True)
    for name in ("19_ReLU.py", "1_Square.py", "100_Hinge.py", "README.md", "notes.py"):
        (folder / name).write_text(RELU)
    return tmp_path


def test_layouts_of_a_checkout(checkout: Path) -> None:
    assert kernelbench_problems(checkout, [1]) == tuple(f"kernelbench:level1/{n}@{checkout}" for n in (1, 19, 100))
    assert kernelbench_problems(checkout, [1], range(1, 21))[-1].startswith("kernelbench:level1/19@")
    reference = read(f"kernelbench:level1/19@{checkout}")
    assert (reference.name, reference.origin) == ("level1/19_ReLU", "kernelbench:level1/19")


def test_a_problem_of_a_checkout(checkout: Path) -> None:
    problem = load(f"kernelbench:level1/19@{checkout}")
    assert problem.source == RELU + "\n" and problem.signature.tensors[0].shape == (16, 64)
    assert problem.signature.tensors[0].low is None, "the reference is defined beyond what torch.rand draws"


def test_what_is_not_in_a_checkout(checkout: Path) -> None:
    with pytest.raises(ProblemError, match="no problem 20; it has 1, 19, 100"):
        read(f"kernelbench:level1/20@{checkout}")
    with pytest.raises(ProblemError, match="no level4"):
        kernelbench_problems(checkout, [4])


def test_sources_are_found_by_name() -> None:
    assert list(members("problems.sources", "Source")) == ["file", "kernelbench", "suite"]


def test_the_suite_has_sixty() -> None:
    assert len(suite_problems()) == 61


@pytest.mark.parametrize("ref", suite_problems()[::5])
def test_the_suite_loads(ref: str) -> None:
    problem = load(ref)
    assert problem.opaque == "" and problem.region is not None
    assert f"suite:{problem.name}" == ref


@pytest.mark.parametrize(
    ("ref", "inputs"),
    [
        ("vision_attention.py:VisionAttention", []),
        ("rmsnorm.py:RMSNorm", []),
        ("gelu_mlp.py:MLP", ["f32[256,256]"]),
        ("gelu_mlp.py:MLP", ["f32[1..512@256,256]"]),
    ],
)
def test_the_examples_load(ref: str, inputs: list[str]) -> None:
    problem = load(str(EXAMPLES / ref), inputs=inputs)
    assert problem.region is not None
    assert problem.dynamic == (problem.region.dynamic_text is not None)
