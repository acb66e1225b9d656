"""Inputs for calls, written where the child will read them.

Those of timed calls are like the user's own and new for every call: a base set changed in every element. Floating
leaves are multiplied by random factors near one (moved towards the lower bound where the signature names bounds), all
others are rolled by a random distance, so that neither a call's memory nor any few of its values say that it has been
seen before. Only the random numbers are kept: a set is made when it is wanted and the same each time. NumPy makes them,
on one thread: torch's helper threads would still spin when the clock starts.
"""

import ctypes
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy
import torch

from kernelwright.judge.device_arena import memory_of
from kernelwright.records import Signature, TensorSpec

SPREAD = 0.125
"""How much of itself a number may change by."""
_TILE = 1 << 16
_SHORT = 1 << 12
"""Sets of so few elements are written by one operation for all calls of a window."""
_WHOLE = (torch.float32, torch.float64)
"""These are written where they are read."""


class Batch(Protocol):
    """The inputs of some calls, alike in shapes and strides."""

    def __len__(self) -> int:
        """How many calls."""
        ...

    def like(self) -> list[torch.Tensor]:
        """Tensors with the shapes and strides of a call's, in the signature's order."""
        ...

    def leaves(self, call: int) -> list[torch.Tensor]:
        """The tensors of one call."""
        ...

    def write(self, leaf: int, rows: Any) -> None:
        """Writes this leaf of every call: rows (calls, bytes) uint8, from the first element in memory to the last; an
        array of NumPy, or a tensor on the device whose arena it is."""
        ...


@dataclass(frozen=True)
class Given:
    """Tensors that are there already."""

    sets: Sequence[Sequence[torch.Tensor]]

    def __len__(self) -> int:
        return len(self.sets)

    def like(self) -> list[torch.Tensor]:
        return self.leaves(0) if self.sets else []

    def leaves(self, call: int) -> list[torch.Tensor]:
        return list(self.sets[call])

    def write(self, leaf: int, rows: Any) -> None:
        for row, leaves in zip(rows, self.sets, strict=True):
            if isinstance(row, torch.Tensor):
                row.copy_(memory_of(leaves[leaf]))
            else:
                ctypes.memmove(row.ctypes.data, leaves[leaf].data_ptr(), row.nbytes)


def drawn(count: int) -> numpy.ndarray:
    """A secret number in [0, 1) for each call of a batch, in random order and no two within 1 / (2 count) of each
    other: of numbers drawn freely, two agree in 65,536 in every eightieth batch of 40, so two calls have one input."""
    # Straight from the system: seeding a generator takes ten times as long.
    random = numpy.frombuffer(secrets.token_bytes(8 * (2 * count + 1)), numpy.uint64) / 2.0**64
    order, within, shift = random[:count].argsort(), random[count : 2 * count], random[2 * count]
    return ((order + within / 2) / max(count, 1) + shift) % 1.0


class Fresh:
    """Makes batches from a base set. `base`: plain tensors, in the signature's order; a batch has its strides."""

    def __init__(self, base: Sequence[torch.Tensor], signature: Signature) -> None:
        self._aliases = [spec.alias_of for spec in signature.tensors]
        self._kinds = [_kind(leaf, spec) for leaf, spec in zip(base, signature.tensors, strict=True)]

    def __call__(self, count: int) -> "Drawn":
        return Drawn(count, self._kinds, self._aliases, [drawn(count) for _ in self._kinds])


@dataclass(frozen=True)
class Drawn:
    """What Fresh makes."""

    count: int
    kinds: "Sequence[_Kind]"
    aliases: Sequence[int | None]
    draws: Sequence[numpy.ndarray]
    """For each leaf a number in [0, 1) for each call."""

    def __len__(self) -> int:
        return self.count

    def like(self) -> list[torch.Tensor]:
        return [kind.leaf for kind in self.kinds]

    def leaves(self, call: int) -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        for kind, alias, draw in zip(self.kinds, self.aliases, self.draws, strict=True):
            made.append(kind.tensor(draw[call]) if alias is None else made[alias])
        return made

    def write(self, leaf: int, rows: numpy.ndarray) -> None:
        if rows.size:
            self.kinds[leaf].write(self.draws[leaf], rows)


class _Kind:
    """One leaf and how it is changed. `flat`: its memory from the first element to the last, gaps included."""

    def __init__(self, leaf: torch.Tensor) -> None:
        spans = ((size - 1) * step for size, step in zip(leaf.shape, leaf.stride(), strict=True))
        self.leaf = leaf
        self.flat = leaf.as_strided((1 + sum(spans) if leaf.numel() else 0,), (1,), leaf.storage_offset())

    def row(self, draw: float) -> numpy.ndarray:
        """The changed memory, as uint8."""
        raise NotImplementedError

    def tensor(self, draw: float) -> torch.Tensor:
        made = torch.from_numpy(self.row(draw)).view(self.leaf.dtype) if self.flat.numel() else self.flat
        return made.as_strided(self.leaf.shape, self.leaf.stride())

    def write(self, draws: numpy.ndarray, rows: numpy.ndarray) -> None:
        for row, draw in zip(rows, draws, strict=True):
            row[:] = self.row(draw)


class _Scaled(_Kind):
    """x (1 - w), or x + w (low - x) towards a bound; w up to SPREAD, another one for each element, from a tile that
    each call enters elsewhere. With one w for all of a call, a function of ratios alone (a norm) would give one result
    for all; with one pattern for all calls, a linear function's results would be made of any two. Narrow floats are
    worked out in float32."""

    def __init__(self, leaf: torch.Tensor, low: float | None) -> None:
        super().__init__(leaf)
        narrow = leaf.is_floating_point() and leaf.dtype.itemsize < 4
        self._base = (self.flat.float() if narrow else self.flat).numpy()
        self._real = numpy.float64 if leaf.dtype in (torch.float64, torch.complex128) else numpy.float32
        self._step = None if low is None else self._real(low) - self._base
        random = numpy.random.default_rng(secrets.randbits(64))
        shares = self._real(SPREAD) * random.random(_TILE + min(len(self._base), _TILE), dtype=self._real)
        self._tile = shares if self._step is not None else self._real(1.0) - shares

    def _changed(self, draw: float, out: numpy.ndarray) -> numpy.ndarray:
        """Into `out`, which has the base's dtype."""
        entered = int(draw * _TILE)
        for start in range(0, len(self._base), _TILE):
            span = slice(start, min(start + _TILE, len(self._base)))
            tile = self._tile[entered : entered + span.stop - start]
            if self._step is None:
                numpy.multiply(self._base[span], tile, out=out[span])
            else:
                numpy.multiply(self._step[span], tile, out=out[span])
                out[span] += self._base[span]
        return out

    def row(self, draw: float) -> numpy.ndarray:
        changed = self._changed(draw, numpy.empty_like(self._base))
        if self.leaf.dtype is torch.float16:
            changed = changed.astype(numpy.float16)
        elif self.leaf.dtype is torch.bfloat16:
            bits = changed.view(numpy.uint32)
            changed = ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype(numpy.uint16)  # ties to even
        return changed.view(numpy.uint8)

    def write(self, draws: numpy.ndarray, rows: numpy.ndarray) -> None:
        if self.leaf.dtype not in _WHOLE:
            super().write(draws, rows)
            return
        whole = rows.view(self._base.dtype)
        if self._step is None and len(self._base) <= _SHORT:
            tiles = numpy.lib.stride_tricks.sliding_window_view(self._tile, len(self._base))
            numpy.multiply(self._base, tiles[(draws * _TILE).astype(numpy.int64)], out=whole)
            return
        for row, draw in zip(whole, draws, strict=True):
            self._changed(float(draw), row)


class _Rolled(_Kind):
    """The elements change places, in the order of memory; what lies in gaps stays there."""

    def __init__(self, leaf: torch.Tensor) -> None:
        super().__init__(leaf)
        self._base = self.flat.contiguous().view(torch.uint8).numpy().reshape(-1, leaf.dtype.itemsize)
        where = torch.arange(len(self._base)).as_strided(leaf.shape, leaf.stride()) if leaf.numel() else leaf
        self._where = None if leaf.numel() >= len(self._base) else where.unique().numpy()

    def row(self, draw: float) -> numpy.ndarray:
        elements = self._base if self._where is None else self._base[self._where]
        rolled = numpy.roll(elements, 1 + int(draw * max(len(elements) - 1, 0)), axis=0)
        if self._where is not None:
            elements, rolled = rolled, self._base.copy()
            rolled[self._where] = elements
        return rolled.reshape(-1)


def _kind(leaf: torch.Tensor, spec: TensorSpec) -> _Kind:
    wide = leaf.dtype in _WHOLE or leaf.is_complex()
    if wide or leaf.dtype in (torch.float16, torch.bfloat16):
        return _Scaled(leaf, None if leaf.is_complex() else spec.low)
    return _Rolled(leaf)
