"""Inputs for timed calls: like the user's own, new for every call, cheap to make.

Each set is a base set changed in every element: floating leaves are multiplied by a random factor near one (towards
the lower bound where the signature names bounds), integers are rolled by a random distance, so that neither a call's
memory nor any few of its values say that it has been seen before.
"""

import secrets
from collections.abc import Callable, Sequence

import torch

from kernelwright.records import Signature, TensorSpec

_SPREAD = 0.125


def fresh_inputs(
    base: Sequence[torch.Tensor], signature: Signature
) -> Callable[[int], Sequence[Sequence[torch.Tensor]]]:
    """A maker of `n` sets of leaves in memory of their own; the strides are those of `base`."""

    def make(count: int) -> list[list[torch.Tensor]]:
        return [_changed(base, signature.tensors) for _ in range(count)]

    return make


def _changed(base: Sequence[torch.Tensor], specs: Sequence[TensorSpec]) -> list[torch.Tensor]:
    made: list[torch.Tensor] = []
    for leaf, spec in zip(base, specs, strict=True):
        made.append(made[spec.alias_of] if spec.alias_of is not None else _new(leaf, spec))
    return made


def _new(leaf: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    share = secrets.randbits(30) / (1 << 30)
    if not leaf.numel():
        return leaf.clone()
    if leaf.dtype in (torch.float32, torch.float64) and spec.low is None:
        # NumPy has no helper threads that would still spin when the clock starts.
        return torch.from_numpy(leaf.numpy() * leaf.numpy().dtype.type(1.0 - _SPREAD * share))
    if leaf.is_floating_point() or leaf.is_complex():
        if spec.low is not None:
            return torch.lerp(leaf, torch.full((), spec.low, dtype=leaf.dtype), _SPREAD * share)
        return leaf * (1.0 - _SPREAD * share)
    rolled = leaf.roll(1 + secrets.randbelow(leaf.numel()))
    return rolled if rolled.stride() == leaf.stride() else leaf.clone().copy_(rolled)
