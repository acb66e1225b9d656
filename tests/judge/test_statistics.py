"""Ratios: covers the truth as often as it says, and equal kernels do not win."""

import numpy as np
import pytest

from kernelwright.judge.statistics import Ratio, noise_floor, ratio


def samples(random, median, count, spread=0.03):
    spikes = np.where(random.random(count) < 0.05, 1 + random.random(count) * 3, 1.0)
    return median * np.exp(random.normal(0, spread, count)) * spikes


def test_interval_holds_the_true_ratio_nineteen_times_in_twenty():
    random = np.random.default_rng(1)
    held = 0
    for _ in range(150):
        found = ratio(samples(random, 120, 31), samples(random, 100, 31))
        held += found.low <= 1.2 <= found.high
    assert held >= 0.9 * 150


def test_equal_kernels_rarely_win():
    random = np.random.default_rng(2)
    wins = sum(ratio(samples(random, 100, 21), samples(random, 100, 21)).wins(0.01) for _ in range(200))
    assert wins <= 6


def test_a_slow_spell_of_both_cancels():
    random = np.random.default_rng(3)
    weather = np.repeat([1.0, 2.0], 15)
    found = ratio(samples(random, 110, 30, 0.01) * weather, samples(random, 100, 30, 0.01) * weather)
    assert found.value == pytest.approx(1.1, rel=0.02)
    assert 1.08 < found.low < found.high < 1.12


@pytest.mark.parametrize("count", [5, 7, 11])
def test_few_rounds_promise_no_more_than_they_hold(count):
    random = np.random.default_rng(5)
    held = 0
    for _ in range(300):
        found = ratio(samples(random, 120, count), samples(random, 100, count))
        held += found.low <= 1.2 <= found.high
    assert held >= (0.93 if count > 5 else 0.9) * 300, "of five samples not even all of them hold it more often"


def test_same_samples_same_interval():
    random = np.random.default_rng(4)
    first, second = samples(random, 100, 9), samples(random, 90, 9)
    assert ratio(first, second) == ratio(first, second)
    assert ratio([5.0], [2.5]) == Ratio(2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="both sides"):
        ratio([], [1.0])


def test_the_floor_is_the_middle_deviation_and_never_below_a_percent():
    repeats = [Ratio(1.3, 0.8, 1.9), Ratio(0.96, 0.9, 1.01), Ratio(1.0, 0.9, 1.1)]
    assert noise_floor(repeats) == pytest.approx(0.04)
    assert noise_floor([Ratio(1.0, 1.0, 1.001)]) == noise_floor([]) == 0.01
