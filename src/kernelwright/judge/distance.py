"""How far the results of one call lie from those of another, to find the call that is most worth a closer look.

It decides nothing: what lies farthest is given to the oracle. NumPy on one thread, of a sample: torch's helper threads
would still be spinning when the clock starts next.
"""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLE = 1 << 14
"""Elements of a result that are looked at, evenly spread."""


def distance(mine: "Sequence[Tensor | None]", theirs: "Sequence[Tensor | None]") -> float:
    """The largest over the results: of floating ones the length of the difference over that of `theirs`, of others the
    share of elements that differ; infinite where one has NaN or infinity and the other has not, or one is missing."""
    return max((_apart(one, other) for one, other in zip(mine, theirs, strict=True)), default=0.0)


def _apart(mine: "Tensor | None", theirs: "Tensor | None") -> float:
    if mine is None or theirs is None:
        return float("inf")
    step = max(1, mine.numel() // _SAMPLE)
    start = random.randrange(step)
    one, other = (_array(tensor.reshape(-1)[start::step].cpu()) for tensor in (mine, theirs))
    if one.dtype.kind not in "fc":
        return float(numpy.mean(one != other)) if one.size else 0.0
    finite = numpy.isfinite(one)
    if not numpy.array_equal(finite, numpy.isfinite(other)):
        return float("inf")
    one, other = one[finite], other[finite]
    apart = _length(one - other)
    return apart / max(_length(other), 1e-300) if apart else 0.0


def _length(numbers: numpy.ndarray) -> float:
    """Euclidean. Not by numpy.linalg.norm: that is a product of BLAS, whose threads spin on the child's processors."""
    with numpy.errstate(over="ignore"):
        return float(numpy.sqrt(numpy.sum(numpy.square(numpy.abs(numbers)))))


def _array(flat: "Tensor") -> numpy.ndarray:
    """Its elements; floating ones wide enough that squares do not overflow."""
    import torch

    if flat.dtype is torch.bfloat16:
        return (flat.view(torch.int16).numpy().astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    array = flat.numpy()
    if array.dtype.kind == "c":
        return array.astype(numpy.complex128)
    return array.astype(numpy.float64) if array.dtype.kind == "f" else array
