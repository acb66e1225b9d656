"""Inputs for timed calls, made where they will be read: fresh.py for a GPU.

As there, a base set is changed in every element by a random number for each leaf and call, and a set can be made again
from these numbers. The arithmetic is done in separate operations, each rounded as IEEE 754 says, so that what is made
twice is the same twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch

from kernelwright.judge.device_arena import memory_of
from kernelwright.judge.fresh import SPREAD, drawn
from kernelwright.records import Signature, TensorSpec

_PERIOD = 1_000_003
"""After so many elements the pattern of changes begins anew; no row is that long."""
_SCALED = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


class DeviceFresh:
    """Makes batches from a base set. `base`: plain tensors on the device, in the signature's order."""

    def __init__(self, base: Sequence[torch.Tensor], signature: Signature) -> None:
        self._aliases = [spec.alias_of for spec in signature.tensors]
        self._leaves = [_Leaf(leaf, spec) for leaf, spec in zip(base, signature.tensors, strict=True)]

    def __call__(self, count: int) -> "DeviceDrawn":
        return DeviceDrawn(count, self._leaves, self._aliases, [drawn(count) for _ in self._leaves])


@dataclass(frozen=True)
class DeviceDrawn:
    """What DeviceFresh makes; a fresh.Batch."""

    count: int
    kinds: "Sequence[_Leaf]"
    aliases: Sequence[int | None]
    draws: Sequence[numpy.ndarray]
    """For each leaf a number in [0, 1) for each call."""

    def __len__(self) -> int:
        return self.count

    def like(self) -> list[torch.Tensor]:
        return [kind.tensor for kind in self.kinds]

    def leaves(self, call: int) -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        for kind, alias, draw in zip(self.kinds, self.aliases, self.draws, strict=True):
            made.append(kind.changed(float(draw[call])) if alias is None else made[alias])
        return made

    def write(self, leaf: int, rows: torch.Tensor) -> None:
        for row, draw in zip(rows, self.draws[leaf], strict=True):
            self.kinds[leaf].write(float(draw), row)


class _Leaf:
    """One leaf and how it is changed: each element towards zero, or towards the lower bound where there is one, by up
    to SPREAD of the way and no two in step, since a function may look at ratios alone; what is no quantity is
    rolled."""

    def __init__(self, tensor: torch.Tensor, spec: TensorSpec) -> None:
        self.tensor = tensor
        self._flat = memory_of(tensor).view(tensor.dtype) if tensor.numel() else tensor.reshape(-1)
        self._scaled = tensor.dtype in _SCALED
        self._gaps = tensor.numel() < self._flat.numel()
        low = None if tensor.is_complex() else spec.low
        narrow = tensor.is_floating_point() and tensor.dtype.itemsize < 4
        self._base = self._flat.float() if narrow else self._flat
        if self._scaled:
            generator = torch.Generator().manual_seed(self._flat.numel())
            uneven = torch.rand(min(self._flat.numel(), _PERIOD), generator=generator).to(tensor.device)
            uneven = uneven.repeat(-(-self._flat.numel() // max(uneven.numel(), 1)))[: self._flat.numel()]
            self._step = ((low or 0.0) - self._base) * uneven.mul_(0.25).add_(0.75)

    def changed(self, draw: float) -> torch.Tensor:
        """The tensor of a call with this random number."""
        if not self._flat.numel():
            return self.tensor
        return self._made(draw).as_strided(self.tensor.shape, self.tensor.stride())

    def write(self, draw: float, row: torch.Tensor) -> None:
        """The same into memory, as uint8 from the first element on."""
        if row.numel():
            row.view(self.tensor.dtype).copy_(self._made(draw))

    def _made(self, draw: float) -> torch.Tensor:
        if not self._scaled:
            return self._rolled(draw)
        share = float(numpy.float32(SPREAD * (0.25 + 0.75 * draw)))
        return (self._base + self._step * share).to(self.tensor.dtype)

    def _rolled(self, draw: float) -> torch.Tensor:
        count = min(self.tensor.numel(), self._flat.numel())
        shift = 1 + int(draw * max(count - 1, 0))
        if not self._gaps:
            return self._flat.roll(shift)
        made = self._flat.clone()  # what lies in the gaps stays there
        rolled = self.tensor.reshape(-1).roll(shift).reshape(self.tensor.shape)
        made.as_strided(self.tensor.shape, self.tensor.stride()).copy_(rolled)
        return made
