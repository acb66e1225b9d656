"""The table of chips agrees with itself, and its marks are kept."""

import pytest

from kernelwright.errors import UnknownNameError
from kernelwright.metal.chips import CHIPS, Chip, Trust, chip


@pytest.mark.parametrize("known", CHIPS, ids=lambda known: known.name)
def test_rate_follows_from_cores_and_clock(known: Chip) -> None:
    """128 fused multiply-adds a core and cycle: what was measured lies a little below, what was calculated near."""
    calculated = known.cores * known.clock_ghz * 256 / 1000
    assert 0.9 < known.tflops / calculated < 1.03


def test_no_bandwidth_is_called_measured() -> None:
    assert {known.trust_bandwidth for known in CHIPS} == {Trust.RECALLED, Trust.STATED}


@pytest.mark.parametrize("spelled", ["m2 max", "M2-Max", "Apple M2 Max"])
def test_found_however_it_is_spelled(spelled: str) -> None:
    assert chip(spelled).cores == 38


def test_an_unknown_chip_names_near_ones() -> None:
    with pytest.raises(UnknownNameError, match="M4 Max"):
        chip("M4 Mac")
