"""Axes: where a value lies on a plot, in per cent of its width, and where the ticks are."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

# A linear axis on which the largest value is more than this many times the smallest hides the small ones.
_WIDE = 6.0
# Marks at the ends are drawn whole.
_MARGIN_PERCENT = 2.0


@dataclass(frozen=True)
class Scale:
    """A stretch of numbers laid on a line."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Per cent from the left; values outside the stretch lie at its ends."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return round(_MARGIN_PERCENT + part * (100 - 2 * _MARGIN_PERCENT), 3)


def ratio_scale(values: Iterable[float]) -> Scale:
    """An axis for speedups: it shows 1 and, unless it is logarithmic, starts at 0, so that lengths compare."""
    usable = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
    low, high = min([1.0, *usable]), max([1.0, *usable])
    if high / low <= _WIDE:
        step = _step(high, 6)
        high = math.ceil(high * 1.02 / step) * step
        return Scale(0.0, high, False, tuple(step * place for place in range(round(high / step) + 1)))
    low, high = low / 1.15, high * 1.15
    steps = [mantissa * 10.0**power for power in range(-6, 10) for mantissa in (1, 2, 5)]
    ticks = tuple(value for value in steps if low <= value <= high)
    if len(ticks) > 7:
        ticks = tuple(value for value in ticks if round(math.log10(value), 6).is_integer())
    return Scale(low, high, True, ticks)


def time_scale(samples_us: Iterable[float]) -> Scale:
    """An axis for samples: from the smallest to the largest of them."""
    usable = [value for value in samples_us if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(usable), max(usable)
    if low == high:
        low, high = low * 0.9, high * 1.1 + 1e-9
    step = _step(high - low, 4)
    ticks = tuple(step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1))
    return Scale(low, high, False, ticks)


def _step(span: float, most: int) -> float:
    """A round step of which at most `most` fit into `span`."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(mantissa * power for mantissa in (1, 2, 2.5, 5, 10) if mantissa * power >= rough * 0.999)
