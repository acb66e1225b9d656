"""Numbers as people read them."""

from dataclasses import replace

import pytest

from kernelwright.records import Outcome, Stage
from kernelwright.report import wording


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0.0523, "52.3 ns"),
        (0.99, "990 ns"),
        (1.0, "1.00 µs"),
        (142.4, "142 µs"),
        (999.7, "1.00 ms"),
        (1918.0, "1.92 ms"),
        (3.1e6, "3.10 s"),
    ],
)
def test_microseconds(value, words: str) -> None:
    assert wording.microseconds(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0.0314, "0.031×"), (0.967, "0.97×"), (1.8251, "1.83×"), (14.2, "14.2×"), (1420.0, "1,420×")],
)
def test_times(value, words: str) -> None:
    assert wording.times(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(3.21, "3.2 s"), (42.4, "42 s"), (184, "3 min 4 s"), (7800, "2 h 10 min")]
)
def test_duration(value: float, words: str) -> None:
    assert wording.duration(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(842.2, "842"), (61_274, "61,300"), (1.23e6, "1.23 million"), (4e9, "4.00 billion")]
)
def test_count(value: float, words: str) -> None:
    assert wording.count(value) == words


@pytest.mark.parametrize(
    ("value", "words"), [(None, "–"), (512, "512 B"), (15_728_640, "15.0 MiB"), (16 << 30, "16.0 GiB")]
)
def test_size(value, words: str) -> None:
    assert wording.size(value) == words


def test_standing_tells_what_a_pass_is_worth(outcome: Outcome) -> None:
    best = outcome.best.verdict
    assert wording.standing(best) == "confirmed"
    assert wording.standing(replace(best, stage=Stage.TIME)) == "passed"
    assert wording.standing(outcome.entries[1].verdict) == "passed, cannot win"
    assert wording.standing(replace(best, timing=None, native=False)) == "passed, hosted"
    assert wording.labels(replace(best, timing=None, native=False))[0] == "hosted: no native time"


def test_a_search_pays_back(outcome: Outcome, fruitless: Outcome) -> None:
    saved_us = outcome.best.verdict.best_baseline.timing.median_us - outcome.best.verdict.timing.median_us
    calls = wording.pays_back_after(outcome)
    assert calls is not None and calls * saved_us == pytest.approx(outcome.spent_s * 1e6)
    assert wording.pays_back_after(fruitless) is None


def test_the_best_stands_first_though_another_sample_was_faster(outcome: Outcome) -> None:
    other = outcome.entries[4]
    assert wording.ranked(replace(outcome, best=other))[0] == other
