"""The timed call that is most worth verifying is found."""

import pytest
import torch

from kernelwright.judge.distance import distance
from kernelwright.judge.fresh import Given
from kernelwright.judge.keeping import Keeping, Seen

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [0, 1, 1000, 300_000])
def test_floats_lie_apart_by_the_length_of_the_difference(dtype: torch.dtype, size: int) -> None:
    one = (torch.rand(size, dtype=torch.float64) + 1).to(dtype)
    assert distance([one], [one.clone()]) == 0.0
    if size:
        assert distance([one * 1.25], [one]) == pytest.approx(0.25, rel=0.02)


def test_large_numbers_do_not_overflow() -> None:
    one = torch.full((1000,), 1e38)
    assert distance([one * 2], [one]) == pytest.approx(1.0)


def test_integers_lie_apart_by_the_share_that_differs() -> None:
    one = torch.arange(1000)
    other = one.clone()
    other[:100] += 1
    assert distance([one], [other]) == pytest.approx(0.1)
    assert distance([one > 5], [one > 5]) == 0.0


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_not_finite_lies_apart_from_what_is(odd: float) -> None:
    one, other = torch.ones(10), torch.ones(10)
    one[3] = odd
    assert distance([one], [other]) == float("inf")
    assert distance([one], [one.clone()]) == 0.0


def test_a_missing_result_is_farthest() -> None:
    assert distance([None], [torch.ones(2)]) == float("inf")
    assert distance([torch.ones(2)], [torch.ones(2)]) == distance([], []) == 0.0


def window(values: list[float], *, stale: int = -1, at: int = 0) -> Seen:
    """Calls that return twice their input; one returns what belongs to another."""
    given = Given([[torch.tensor(value)] for value in values])
    results = [(torch.tensor(2 * (value + (call == stale))),) for call, value in enumerate(values)]
    calls = [(at + call) % len(values) for call in range(len(values))]
    return Seen(given, calls, [results[call] for call in calls])


def test_one_stale_call_among_many_is_kept() -> None:
    keeping = Keeping(2)
    for turn in range(20):
        values = [turn * 10.0 + call + 1 for call in range(3)]
        mine = window(values, stale=2 if turn == 7 else -1)
        keeping.add(turn, mine)
        keeping.compare(mine, window(values))
    wrong = [kept for kept in keeping.kept() if kept.outputs[0] != 2 * kept.leaves[0]]
    assert wrong and float(wrong[-1].leaves[0]) == 73.0


def test_calls_that_the_trusted_session_did_not_reveal_are_not_compared() -> None:
    keeping = Keeping(1)
    values = [1.0, 2.0, 3.0]
    keeping.add(0, window(values, stale=0))
    keeping.compare(window(values, stale=0), Seen(Given([]), [1, 2], window(values, at=1).results[:2]))
    keeping.compare(window(values), window(values, at=2))
    assert len(keeping.kept()) == 1, "what was drawn, and nothing that lies apart"


def test_without_a_trusted_session_calls_are_drawn_alone() -> None:
    keeping = Keeping(2)
    for turn in range(9):
        keeping.add(turn, window([float(turn)]))
    assert len(keeping.kept()) == 2
