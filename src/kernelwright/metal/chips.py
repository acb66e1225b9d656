"""Apple's GPUs as a roofline needs them: what they could do at best, and how far each figure is to be believed.

Sources: https://github.com/philipturner/metal-benchmarks (M1 and M2 families, measured there), vendor pages, and
https://tzakharko.github.io/apple-neural-accelerators-benchmark (M5). Nothing was measured by this package: where you
have the machine, measure it, and use this table only where you have not. Sustained bandwidth is about 79 % of what the
vendor names (measured on an M5: 122 of 153.6 GB/s).
"""

from dataclasses import dataclass
from enum import Enum

from kernelwright.errors import UnknownNameError

__all__ = ["CHIPS", "Chip", "Trust", "chip"]


class Trust(Enum):
    """How a figure is known."""

    MEASURED = "measured by the source"
    STATED = "stated by a page, not checked"
    RECALLED = "from memory, not checked"


@dataclass(frozen=True)
class Chip:
    """One GPU. `tflops` counts a fused multiply-add as two operations, fp32; fp16 runs at the same rate outside M5's
    matrix units, which the hosted languages do not reach."""

    name: str
    cores: int
    clock_ghz: float
    tflops: float
    bandwidth_gbs: float
    cache_mb: int | None
    trust_tflops: Trust
    trust_bandwidth: Trust


MATRIX_SHARE = 0.8
"""Of the fp32 rate that simdgroup_matrix reaches: 102 of 128 multiply-adds a core and cycle (metal-benchmarks)."""
TRANSCENDENTALS_PER_CORE_CYCLE = 16
"""Between exp2 (32), rsqrt (16) and sin (9) of metal-benchmarks."""
LOCAL_BYTES_PER_CORE = 60 * 1024
"""Threadgroup memory that a core has, about; one threadgroup may take 32 KB of it (metal-benchmarks)."""
BUSY_SIMDGROUPS_PER_CORE = 24
"""As many simdgroups a core needs to keep its arithmetic busy (metal-benchmarks)."""
LINE_BYTES = 128
"""A cache line (metal-benchmarks)."""

_M, _S, _R = Trust.MEASURED, Trust.STATED, Trust.RECALLED

CHIPS = (
    Chip("M1", 8, 1.278, 2.6, 68, 8, _M, _R),
    Chip("M1 Pro", 16, 1.296, 5.3, 200, 24, _M, _R),
    Chip("M1 Max", 32, 1.296, 10.6, 400, 48, _M, _R),
    Chip("M1 Ultra", 64, 1.296, 21.2, 800, 96, _M, _R),
    Chip("M2", 10, 1.398, 3.6, 100, 8, _M, _R),
    Chip("M2 Pro", 19, 1.398, 6.8, 200, 24, _M, _R),
    Chip("M2 Max", 38, 1.398, 13.6, 400, 48, _M, _R),
    Chip("M2 Ultra", 76, 1.398, 27.2, 800, 96, _R, _R),
    Chip("M3", 10, 1.4, 3.6, 100, None, _R, _R),
    Chip("M3 Pro", 18, 1.4, 6.5, 150, None, _R, _R),
    Chip("M3 Max", 40, 1.4, 14.3, 400, None, _R, _R),
    Chip("M3 Ultra", 80, 1.4, 28.0, 819, None, _S, _R),
    Chip("M4", 10, 1.578, 4.0, 120, None, _R, _R),
    Chip("M4 Pro", 20, 1.578, 8.1, 273, None, _R, _R),
    Chip("M4 Max", 40, 1.578, 16.2, 546, None, _S, _S),
    Chip("M5", 10, 1.578, 3.76, 153.6, None, _M, _S),
    Chip("M5 Pro", 20, 1.578, 8.1, 307, None, _R, _R),
    Chip("M5 Max", 40, 1.75, 18.0, 614, None, _R, _S),
)


def chip(name: str) -> Chip:
    """The chip of that name, whatever its case ("m2 max", "M2-Max"). Raises UnknownNameError."""
    wanted = _key(name)
    for known in CHIPS:
        if _key(known.name) == wanted:
            return known
    raise UnknownNameError("chip", name, [known.name for known in CHIPS])


def _key(name: str) -> str:
    return name.lower().removeprefix("apple ").replace("-", " ").replace("_", " ").strip()
