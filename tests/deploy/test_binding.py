"""A kernel that is loaded leaves the user's process as it was."""

from pathlib import Path

import torch

from kernelwright import problems
from kernelwright.deploy.binding import instantiate
from kernelwright.records import Candidate, SourceFile

PROBLEM = """
import torch
from torch import nn

class Twice(nn.Module):
    def forward(self, x):
        return x + x

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
from torch import nn

torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
torch.nn.functional.relu = None

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        torch.set_num_threads(torch.get_num_threads() + 3)

    def forward(self, x):
        return 2 * x
"""


def test_what_loading_changes_for_the_whole_process_is_put_back(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(PROBLEM)
    problem = problems.load(f"{tmp_path / 'twice.py'}:Twice")
    threads, relu, state = torch.get_num_threads(), torch.nn.functional.relu, torch.get_rng_state()
    module = instantiate(problem, Candidate("someone", "torch@cpu", (SourceFile("model.py", CANDIDATE),)))
    assert torch.equal(module(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.get_num_threads() == threads and torch.nn.functional.relu is relu
    assert torch.get_default_dtype() is torch.float32 and torch.equal(torch.get_rng_state(), state)
