"""A small sample of benchmarks/mutants.py: planted bugs, each of which the judge must find."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FILE = Path(__file__).parents[2] / "benchmarks" / "mutants.py"


@pytest.fixture(scope="module")
def planting() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("planting", FILE)
    assert spec is not None and spec.loader is not None
    module = sys.modules["planting"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)
    del sys.modules["planting"]


def test_planted_bugs_are_found(planting: ModuleType) -> None:
    tally = planting.run(4, ["softmax_in_place", "mlp_transposed"], watch=lambda line: None)
    assert len(tally.bugs) == 8
    assert not tally.missed, [mutant.title for mutant in tally.missed]


def test_every_kernel_has_places_for_bugs(planting: ModuleType) -> None:
    for kernel in planting.kernels():
        kinds = {mutant.kind for mutant in planting.mutants(kernel)}
        assert len(kinds) >= 1, kernel.name


def test_a_mutant_differs_in_one_place_and_still_parses(planting: ModuleType) -> None:
    text = "def forward(x):\n    return (x - x.amax(-1)).exp()\n"
    made = {(kind, before, after) for kind, _, before, after, _ in planting._of_python(text)}
    assert ("swapped operands", "x - x.amax(-1)", "x.amax(-1) - x") in made
    assert ("wrong axis", "-1", "0") in made and ("dropped term", "x - x.amax(-1)", "x") in made
    assert all(compile(whole, "mutant", "exec") for *_, whole in planting._of_python(text))
