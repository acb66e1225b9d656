"""Axes."""

import math

import pytest

from kernelwright.report.scale import ratio_scale, time_scale


def test_a_narrow_ratio_axis_starts_at_nothing() -> None:
    scale = ratio_scale([0.9, 2.1])
    assert not scale.logarithmic and scale.low == 0 and 1 in scale.ticks
    assert scale.place(0) < scale.place(0.9) < scale.place(1) < scale.place(2.1) <= scale.place(scale.high)


def test_a_wide_ratio_axis_is_logarithmic() -> None:
    scale = ratio_scale([0.5, 140.0])
    assert scale.logarithmic and 1.0 in scale.ticks
    assert scale.place(10) - scale.place(1) == pytest.approx(scale.place(100) - scale.place(10), abs=0.01)


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, math.inf, 0.0, -1.0], [1e-9, 1e9], [1.0000001]])
@pytest.mark.parametrize("make", [ratio_scale, time_scale])
def test_odd_values_still_make_an_axis(make, values: list[float]) -> None:
    scale = make(values)
    assert scale.low < scale.high
    assert len(scale.ticks) <= 20
    assert all(0 <= scale.place(value) <= 100 for value in [*scale.ticks, 1.0, 1e-12, 1e12])


def test_time_ticks_are_round_and_few() -> None:
    assert time_scale([1742.0, 3710.0]).ticks == (2000.0, 2500.0, 3000.0, 3500.0)
