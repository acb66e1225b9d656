"""What samples of two kernels, taken by turns, say of their ratio. Pure; NumPy only."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
_LEAST_US = 0.001
"""A sample of nothing (a slope between disturbed windows may vanish) counts as a nanosecond."""


@dataclass(frozen=True)
class Ratio:
    """How many times as long the baseline takes, with the interval that holds it in 95 of 100 repeats."""

    value: float
    low: float
    high: float

    def wins(self, floor: float) -> bool:
        """Whether the interval lies above 1 by more than the noise `floor` that equal kernels show."""
        return self.low > 1.0 + floor


def ratio(baseline_us: Sequence[float], candidate_us: Sequence[float], *, seed: int = 0) -> Ratio:
    """The median of the rounds' ratios, its interval by the percentile bootstrap (Efron 1979).

    Sample i of both was taken in the same round, a moment apart: a processor that changes its speed changes it for
    both, and their ratio does not see it as that of two medians would. Rounds are drawn with replacement, in runs of
    neighbours as long as the cube root of their number (Künsch 1989), so that a slow spell of the machine stays one
    event. With few rounds such an interval is too narrow (of 7 it holds the median in 88 of 100 repeats), so it is also
    at least that of the sign test. Samples of unequal number are no pairs: they give the ratio of their medians, and
    are resampled apart.
    """
    baseline, candidate = (np.maximum(np.asarray(side, float), _LEAST_US) for side in (baseline_us, candidate_us))
    if not baseline.size or not candidate.size:
        raise ValueError("a ratio needs samples of both sides")
    random = np.random.default_rng(seed)
    rounds = _rounds(random, baseline.size)
    if candidate.size == baseline.size:
        pairs = baseline / candidate
        value, ratios = float(np.median(pairs)), np.median(pairs[rounds], axis=1)
        bounds = _sign_test(pairs)
    else:
        value = float(np.median(baseline) / np.median(candidate))
        others = _rounds(random, candidate.size)
        ratios = np.median(baseline[rounds], axis=1) / np.median(candidate[others], axis=1)
        bounds = value, value
    low, high = np.quantile(ratios, (0.025, 0.975))
    return Ratio(value, min(bounds[0], float(low)), max(bounds[1], float(high)))


def noise_floor(ratios: Sequence[Ratio]) -> float:
    """How far from 1 a kernel is found from itself: the middle of some A/A repeats, at least 1 %.

    The width of the intervals is no part of it: a comparison brings its own, measured in the same minute, and noise
    counted twice would refuse honest wins. Below one percent other causes than noise (code alignment, page colours)
    differ from process to process, and no number of repeats within one process shows them.
    """
    return max(0.01, statistics.median(abs(item.value - 1.0) for item in ratios)) if ratios else 0.01


def _sign_test(samples: np.ndarray) -> tuple[float, float]:
    """Between which of the samples their median lies in 95 of 100 repeats, whatever their distribution: all of them
    where they are too few to say."""
    ordered, count = np.sort(samples), len(samples)
    left, rank = 1.0, 0  # of 2**count equally likely choices of sides, `left` have `rank` samples or fewer on one
    while left <= 0.025 * 2.0**count and rank < (count - 1) // 2:
        rank += 1
        left += math.comb(count, rank)
    out = max(0, rank - 1)
    return float(ordered[out]), float(ordered[count - 1 - out])


def _rounds(random: np.random.Generator, count: int) -> np.ndarray:
    length = max(1, round(count ** (1 / 3)))
    starts = random.integers(0, count, size=(RESAMPLES, -(-count // length)))
    rounds = (starts[:, :, None] + np.arange(length)) % count
    return rounds.reshape(RESAMPLES, -1)[:, :count]
