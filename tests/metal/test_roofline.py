"""A roofline is arithmetic on counters and a chip's figures, and is never more than an estimate."""

from typing import Any

import pytest

from kernelwright.errors import UnknownNameError
from kernelwright.metal.chips import Chip, Trust
from kernelwright.metal.roofline import roofline
from kernelwright.simt.counters import Counters, Traffic

CHIP = Chip("T", 10, 1.0, 2.56, 100, None, Trust.MEASURED, Trust.MEASURED)
COPY = Traffic("buffer 0 (x)", "buffer", bytes_read=1 << 20, requests=8192, transactions=8192, touched_bytes=1 << 20)


def counters(*traffic: Traffic, **changes: int) -> Counters:
    given: dict[str, Any] = dict(
        threads=262144, groups=1024, group_threads=256, simd_width=32, group_memory_bytes=0, barriers=0, exchanges=0,
        flops=0, transcendentals=0, matrix_flops=0,
    )  # fmt: skip
    return Counters("k", traffic=traffic, **{**given, **changes})


def test_a_copy_is_bound_by_memory() -> None:
    estimate = roofline(counters(COPY), CHIP)
    assert estimate.bound == "memory"
    assert estimate.memory_us == pytest.approx((1 << 20) / 100e9 * 1e6)
    assert estimate.uncached_us == estimate.memory_us


def test_scattered_accesses_show() -> None:
    scattered = Traffic("buffer 0 (x)", "buffer", 1 << 20, 0, 0, 8192, 32 * 8192, 0, 32 << 20)
    estimate = roofline(counters(scattered), CHIP)
    assert estimate.memory_us == pytest.approx(32 * roofline(counters(COPY), CHIP).memory_us)
    assert any("scattered" in note for note in estimate.notes)


@pytest.mark.parametrize(
    ("work", "bound", "us"),
    [
        ({"flops": 2_560_000}, "arithmetic", 1.0),
        ({"transcendentals": 160_000}, "transcendental", 1.0),
        ({"matrix_flops": 2_048_000}, "matrix", 1.0),
    ],
)
def test_work_is_bound_by_its_own_unit(work: dict[str, int], bound: str, us: float) -> None:
    estimate = roofline(counters(**work), CHIP)
    assert (estimate.bound, estimate.at_least_us) == (bound, pytest.approx(us))


def test_few_groups_leave_cores_idle() -> None:
    estimate = roofline(counters(flops=2_560_000, groups=1), CHIP)
    assert estimate.arithmetic_us == pytest.approx(10.0)
    assert any("1 of 10 cores" in note for note in estimate.notes)


def test_bank_conflicts_and_occupancy() -> None:
    local = Traffic("tile", "group", 1 << 20, requests=8192, transactions=8192 * 32, conflict_cycles=8192 * 31)
    estimate = roofline(counters(local, group_memory_bytes=32768), CHIP)
    assert estimate.bound == "local" and estimate.resident_simdgroups == 8
    assert any("bank conflicts" in note for note in estimate.notes)


def test_the_chips_figures_come_with_how_they_are_known() -> None:
    assert "from memory, not checked" in roofline(counters(COPY), "m3 max").notes[0]
    with pytest.raises(UnknownNameError):
        roofline(counters(COPY), "M9")
