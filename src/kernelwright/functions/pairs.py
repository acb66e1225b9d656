"""Float64 for devices that lack it: pairs of float32, of which the first is the number rounded and the second the rest.

A pair is a word of 8 bytes, so that arrays keep their shapes. It holds 48 bits in float32's range; below 1e-31 fewer,
where the second is subnormal.
"""

import numpy as np

from kernelwright.errors import UsageError

ROUNDING = 2.0**-47
"""Of one addition, at most."""


def split(array: np.ndarray, place: str | None) -> np.ndarray:
    """The numbers as pairs, contiguous int64. Raises UsageError, which calls the array `place`, for a finite number
    that float32 cannot hold; it becomes infinite where there is no `place`."""
    array = np.asarray(array, np.float64)
    parts = np.zeros((*array.shape, 2), np.float32)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        parts[..., 0] = array
        finite = np.isfinite(parts[..., 0])
        np.subtract(array, parts[..., 0], out=parts[..., 1], where=finite, casting="same_kind")
    lost = ~finite & np.isfinite(array)
    if place is not None and lost.any():
        raise UsageError(
            f"{place}: {float(array[lost].flat[0])!r} does not fit precision='double-float', which has the range of "
            "float32 (3.4e38); scale it, or use target='cpu'"
        )
    return parts.view(np.int64)[..., 0]


def joined(words: np.ndarray) -> np.ndarray:
    """The numbers of pairs, as float64."""
    parts = np.ascontiguousarray(words)[..., None].view(np.float32)
    high, low = parts[..., 0].astype(np.float64), parts[..., 1]
    return np.where(low == 0, high, high + low)  # -0 stays -0


def bring_back(words: np.ndarray, before: np.ndarray, target: np.ndarray) -> None:
    """Writes the pairs that are not what they were `before`; other numbers keep all their digits."""
    changed = words != before
    target[changed] = joined(words[changed])
