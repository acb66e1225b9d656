"""The least time a call can take: the bytes that matter, moved at the device's best.

Which bytes matter is found by changing them: an input's block counts if the reference's result differs after all its
values changed. What no result depends on (an input multiplied by zero, a branch not taken) costs nothing to skip.
"""

import itertools
from collections.abc import Callable, Sequence

import torch

from kernelwright.records import Facts

MARGIN = 0.5
"""The floor is half of what the measured bandwidth says: a measurement on a busy machine errs low, and data may lie
partly in a nearer cache."""
_BLOCKS = 8


def floor_us(needed_bytes: int, facts: Facts) -> float:
    """Least time to move `needed_bytes`; 0 where the device's bandwidth is not known.

    The bandwidth is that of the nearest cache that holds them. `cache_bytes` is one core's view, so every core may
    hold its part.
    """
    best = facts.bandwidth_gbs
    for size, bandwidth in zip(facts.cache_bytes, facts.cache_bandwidth_gbs, strict=False):
        if needed_bytes <= size * max(facts.threads, 1):
            best = max(best, bandwidth)
    return MARGIN * needed_bytes / (best * 1e3) if best > 0 else 0.0


def needed_bytes(
    run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]], leaves: Sequence[torch.Tensor]
) -> int:
    """Bytes of the inputs that `run` (the reference) shows to matter, and of its results."""
    before = list(run(leaves))
    total = sum(result.nbytes for result in before)
    seen: set[int] = set()
    for place, leaf in enumerate(leaves):
        if id(leaf) in seen or not leaf.numel():
            continue
        seen.add(id(leaf))
        total += sum(_matter(run, leaves, place, low, high, before) for low, high in _blocks(leaf.numel())) * (
            leaf.element_size()
        )
    return total


def _blocks(count: int) -> list[tuple[int, int]]:
    edges = [count * part // _BLOCKS for part in range(_BLOCKS + 1)]
    return [(low, high) for low, high in itertools.pairwise(edges) if high > low]


def _matter(
    run: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]],
    leaves: Sequence[torch.Tensor],
    place: int,
    low: int,
    high: int,
    before: Sequence[torch.Tensor],
) -> int:
    """Elements of the block, if changing them changes a result; integers are only permuted, being indices perhaps."""
    changed = leaves[place].clone(memory_format=torch.contiguous_format)
    block = changed.view(-1)[low:high]
    if changed.is_floating_point():
        block.mul_(-1.5).sub_(0.37)
    else:
        block.copy_(block.flip(0))
    after = run([*leaves[:place], changed, *leaves[place + 1 :]])
    same = all(
        torch.equal(torch.nan_to_num(one), torch.nan_to_num(two)) for one, two in zip(before, after, strict=True)
    )
    return 0 if same else high - low
