"""The simulation of a swarm's strategies asks select.py, asks equally often, and answers the same again."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kernelwright.search.select import STRATEGIES

FILE = Path(__file__).parents[2] / "benchmarks" / "strategies.py"


@pytest.fixture(scope="module")
def strategies() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulated_strategies", FILE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("questions", [16, 48])
def test_every_strategy_asks_as_often_and_the_same_again(strategies: ModuleType, strategy: str, questions: int) -> None:
    one, other = (strategies.Swarm(strategy, questions, strategies.Assumed(), seed=3) for _ in range(2))
    assert one.best() == other.best() > 0
    assert one.asked == questions


def test_who_learns_nothing_from_others_loses_by_starting_from_them(strategies: ModuleType) -> None:
    deaf = strategies.Assumed(foreign=0.0, joined=0.0)
    found = strategies.row("deaf", deaf, 48, seeds=20).medians
    assert found["best-of-swarm"][0] > found["refine-best"][0]


def test_writers_that_are_never_right_find_nothing(strategies: ModuleType) -> None:
    hopeless = strategies.Assumed(right_first=0.0, right_again=0.0)
    assert all(strategies.Swarm(name, 16, hopeless, seed=0).best() == 0 for name in STRATEGIES)


def test_the_table_has_a_row_for_each_assumption(strategies: ModuleType) -> None:
    rows = [strategies.row("as stated", strategies.Assumed(), 16, seeds=3)]
    assert abs(sum(rows[0].ahead.values()) - 1) < 1e-9
    lines = strategies.table(rows).splitlines()
    assert len(lines) == 3 and all(line.count("|") == 6 for line in lines)
