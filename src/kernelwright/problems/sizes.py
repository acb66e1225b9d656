"""Which sizes a signature leaves open, and the shapes that a choice of them gives.

Equal ranges are one size: `f32[1..8,512]` and `i64[1..8]` share their first dimension. To keep two sizes apart, give
them different bounds.
"""

from collections.abc import Sequence

from kernelwright.errors import UsageError
from kernelwright.records import Range, Signature


def tied_ranges(signature: Signature) -> tuple[Range, ...]:
    """The distinct ranges in order of appearance: one size each."""
    return tuple(dict.fromkeys(size for spec in signature.tensors for size in spec.shape if isinstance(size, Range)))


def shapes(signature: Signature, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The shape of each tensor. `sizes`: one for each distinct range, or for each appearance; none: the examples.

    Raises UsageError where their number is wrong, or one lies outside its range.
    """
    every = [size for spec in signature.tensors for size in spec.shape if isinstance(size, Range)]
    ranges = tied_ranges(signature)
    if not sizes:
        chosen = {size: size.example for size in ranges}
    elif len(sizes) == len(ranges):
        chosen = dict(zip(ranges, sizes, strict=True))
    elif len(sizes) == len(every):
        chosen = dict(reversed(list(zip(every, sizes, strict=True))))
    else:
        raise UsageError(f"the problem leaves {len(ranges)} sizes open, and {len(sizes)} were given")
    for size, value in chosen.items():
        if not size.low <= value <= size.high:
            raise UsageError(f"size {value} is outside {size.low}..{size.high}")
    return [
        tuple(chosen[size] if isinstance(size, Range) else size for size in spec.shape) for spec in signature.tensors
    ]
