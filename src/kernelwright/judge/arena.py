"""Memory shared by judge and child: inputs go in, results are copied out, each in a place with guard zones.

An arena is one anonymous file mapped on both sides. The judge alone decides what lies where and how large it is; the
child is told places and can damage contents only, which the judge's checks are there to see.
"""

import ctypes
import mmap
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from torch import Tensor

_ALIGN = 64
"""As torch aligns its own memory."""
_GUARD = 256
_GUARD_WORDS = _GUARD // 8
_LEAD_ELEMENTS = 4096
"""Storage offsets up to this are kept as they are; larger ones shrink by a multiple of 64."""


@dataclass(frozen=True)
class Place:
    """Where a tensor lies. Its storage begins at `offset`; `lead` elements lie before its first."""

    offset: int
    span_bytes: int
    """From the start of the storage to the last element."""
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    lead: int = 0

    @property
    def empty(self) -> bool:
        """Whether it has no element."""
        return 0 in self.shape


@dataclass(frozen=True)
class Block:
    """Groups of places, all alike and `step` bytes apart: the inputs of calls, or their results."""

    first: tuple[Place, ...]
    step: int
    count: int

    def group(self, index: int) -> tuple[Place, ...]:
        """The places of one group."""
        shift = index * self.step
        return tuple(
            Place(place.offset + shift, place.span_bytes, place.dtype, place.shape, place.stride, place.lead)
            for place in self.first
        )


class Layout:
    """Places one after the other, with room for guards between them."""

    def __init__(self) -> None:
        self.size = _GUARD

    def like(self, tensor: "Tensor") -> Place:
        """A place for a tensor with the strides, and within bounds the storage offset, of `tensor`."""
        lead = int(tensor.storage_offset())
        if lead > _LEAD_ELEMENTS:
            lead = _LEAD_ELEMENTS + lead % _ALIGN
        return self._add(_name(tensor), tuple(tensor.shape), tensor.stride(), lead, tensor.element_size())

    def contiguous(self, dtype: str, shape: tuple[int, ...]) -> Place:
        """A place for a contiguous tensor."""
        import torch

        stride, step = [], 1
        for size in reversed(shape):
            stride.append(step)
            step *= max(size, 1)
        return self._add(dtype, shape, tuple(reversed(stride)), 0, getattr(torch, dtype).itemsize)

    def block(self, place: "Callable[[Layout], tuple[Place, ...]]", count: int) -> Block:
        """`count` times the places that `place` makes in a layout."""
        start = self.size
        first = place(self)
        step = self.size - start
        self.size += step * (count - 1)
        return Block(first, step, count)

    def _add(self, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], lead: int, itemsize: int) -> Place:
        elements = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        span = (lead + elements) * itemsize
        place = Place(self.size, span, dtype, shape, stride, lead)
        self.size = -(-(self.size + span + _GUARD) // _ALIGN) * _ALIGN
        return place


class Arena:
    """The judge's side. `size` is fixed; for more, make another."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.file = _anonymous_file(self.size)
        self._map = mmap.mmap(self.file, self.size)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        # In a result it means that nothing was written there. Secret, so that no value can equal it.
        self._word = numpy.frombuffer(secrets.token_bytes(8), dtype=numpy.uint64)[0]

    def close(self) -> None:
        """Gives the memory back once the child has let go of it too."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1
            self._map.close()

    def publish(self) -> None:
        """Nothing to do: what is written is there. See device_arena.py."""

    def seize(self, places: Iterable[Place]) -> None:
        """Nothing to do: a child that is stopped writes no more."""

    def put(self, place: Place, tensor: "Tensor") -> None:
        """Copies `tensor`, for which the place was made, with the gaps between its elements. One thread, no torch:
        libgomp's helpers would still be spinning when the clock starts."""
        if not place.empty:
            size = tensor.element_size()
            ctypes.memmove(
                self._base + place.offset + place.lead * size, tensor.data_ptr(), place.span_bytes - place.lead * size
            )

    def same(self, place: Place, tensor: "Tensor") -> bool:
        """Whether the place still holds what `put` wrote there, bit for bit."""
        if place.empty:
            return True
        size = tensor.element_size()
        start = place.offset + place.lead * size
        count = place.span_bytes - place.lead * size
        return _memcmp(self._base + start, tensor.data_ptr(), count) == 0

    def rows(self, block: Block, leaf: int, count: int) -> "numpy.ndarray":
        """The memory of one leaf in the first `count` groups: (count, bytes) uint8, from the first element on."""
        place = block.first[leaf]
        lead = place.lead * _itemsize(place.dtype)
        size = 0 if place.empty else place.span_bytes - lead
        return numpy.ndarray((count, size), numpy.uint8, self._map, place.offset + lead, (block.step, 1))

    def poison(self, block: Block, count: int) -> None:
        """Fills the first `count` groups and their guards with a word nobody can know."""
        for place in block.first:
            self._framed(place, block.step, count)[...] = self._word

    def guarded(self, block: Block, count: int) -> bool:
        """Whether the guards around these poisoned groups are intact."""
        for place in block.first:
            words = self._framed(place, block.step, count)
            behind = -(-place.span_bytes // 8)
            if (words[:, :_GUARD_WORDS] != self._word).any() or (words[:, _GUARD_WORDS + behind :] != self._word).any():
                return False
            if part := place.span_bytes % 8:
                last = words[:, _GUARD_WORDS + behind - 1].tobytes()
                if any(last[at + part : at + 8] != self._word.tobytes()[part:] for at in range(0, len(last), 8)):
                    return False
        return True

    def unwritten(self, block: Block, count: int) -> list[tuple[int, int]]:
        """(group, leaf) where some aligned word of a poisoned place still holds the poison."""
        found: list[tuple[int, int]] = []
        for leaf, place in enumerate(block.first):
            within = self._framed(place, block.step, count)[:, _GUARD_WORDS : _GUARD_WORDS + place.span_bytes // 8]
            found += [(int(group), leaf) for group in numpy.flatnonzero((within == self._word).any(axis=1))]
        return sorted(found)

    def take(self, place: Place) -> "Tensor":
        """A private copy of what lies there."""
        import torch

        result = torch.empty_strided(place.shape, place.stride, dtype=getattr(torch, place.dtype))
        if not place.empty:
            ctypes.memmove(result.data_ptr(), self._base + place.offset, place.span_bytes)
        return result

    def _framed(self, place: Place, step: int, count: int) -> "numpy.ndarray":
        """`count` places, `step` bytes apart, with their guards: (count, words) uint64."""
        words = 2 * _GUARD_WORDS + -(-place.span_bytes // 8)
        return numpy.ndarray((count, words), numpy.uint64, self._map, place.offset - _GUARD, (step, 8))


class ChildArena:
    """The child's side: tensors on the shared memory."""

    def __init__(self, file: int) -> None:
        size = os.fstat(file).st_size
        # Page tables filled at once, so that no timed call pays for the first touch of a page.
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        self._map = mmap.mmap(file, size, flags=flags)
        os.close(file)

    def tensor(self, place: Place) -> "Tensor":
        """The tensor at `place`, with a storage of its own."""
        import torch

        dtype = getattr(torch, place.dtype)
        if place.empty:
            return torch.empty_strided(place.shape, place.stride, dtype=dtype)
        flat = torch.frombuffer(self._map, dtype=dtype, count=place.span_bytes // dtype.itemsize, offset=place.offset)
        return flat.as_strided(place.shape, place.stride, place.lead)


def fits(tensors: "Sequence[Tensor]") -> str:
    """Why some of these tensors cannot be handed to a child, as a sentence; empty if they can."""
    for index, tensor in enumerate(tensors):
        if tensor.device.type != "cpu" or tensor.layout is not _strided():
            return f"input {index} is a {tensor.layout} tensor on {tensor.device}; only dense tensors on the CPU cross"
    return ""


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def _itemsize(dtype: str) -> int:
    import torch

    return getattr(torch, dtype).itemsize


def _strided() -> object:
    import torch

    return torch.strided


def _name(tensor: "Tensor") -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _anonymous_file(size: int) -> int:
    if sys.platform == "linux":
        file = os.memfd_create("kernelwright", os.MFD_CLOEXEC)
    else:
        with tempfile.NamedTemporaryFile(prefix="kernelwright-", delete=True) as named:
            file = os.dup(named.fileno())
    os.ftruncate(file, size)
    return file
