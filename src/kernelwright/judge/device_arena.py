"""An arena in a device's own memory: arena.py for a GPU.

A child that is stopped computes no more on the processor, but what it has started on the GPU runs on. So nothing is
prepared or looked at in the memory it shares: inputs are written to a private twin and go over in one copy when all
else is ready for the clock (`publish`), and what it has left is copied to the twin as soon as the clock has stopped
(`seize`). Whatever is written later is written too late.
"""

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kernelwright.judge.arena import Block, Place

if TYPE_CHECKING:
    from torch import Tensor

GUARD = 256
_ALIGN, _LEAD_ELEMENTS = 64, 4096
_GUARD_WORDS = GUARD // 8


class Memory(Protocol):
    """What both processes have mapped."""

    size: int
    file: int

    @property
    def bytes(self) -> "Tensor":
        """(size,) uint8."""
        ...

    def close(self) -> None:
        """Gives it back."""
        ...


class DeviceArena:
    """The judge's side; the interface of arena.Arena."""

    def __init__(self, memory: Memory) -> None:
        import torch

        self._memory: Memory | None = memory
        self.size, self.file = memory.size, memory.file
        self._shared = memory.bytes
        self._own = torch.empty_like(self._shared)
        self._dirty = (self.size, 0)
        """The range of the twin that is yet to go over."""
        # In a result it means that nothing was written there. Secret, so that no value can equal it.
        self._word = int.from_bytes(secrets.token_bytes(8), "little", signed=True)

    def close(self) -> None:
        """Gives the memory back once the child has let go of it too."""
        if self._memory is not None:
            del self._shared, self._own
            self._memory.close()
            self._memory = None
            self.file = -1

    def publish(self) -> None:
        """All that was written goes over, in one copy; it is there when this returns."""
        low, high = self._dirty
        if low < high:
            self._shared[low:high].copy_(self._own[low:high])
            self._finish()
        self._dirty = (self.size, 0)

    def seize(self, places: Iterable[Place]) -> None:
        """What now lies in `places` and around is kept for `take`, `unwritten` and `guarded`."""
        spans = [(place.offset - GUARD, place.offset + place.span_bytes + GUARD) for place in places]
        if spans:
            low, high = min(start for start, _ in spans), min(max(end for _, end in spans), self.size)
            self._own[low:high].copy_(self._shared[low:high])
            self._finish()

    def put(self, place: Place, tensor: "Tensor") -> None:
        """Copies `tensor`, for which the place was made, with the gaps between its elements."""
        if not place.empty:
            found = memory_of(tensor)
            start = place.offset + place.span_bytes - found.numel()
            self._write(start, start + found.numel()).copy_(found)

    def same(self, place: Place, tensor: "Tensor") -> bool:
        """Whether the place still holds what was published there, bit for bit."""
        if place.empty:
            return True
        wanted = memory_of(tensor).to(self._shared.device)
        end = place.offset + place.span_bytes
        return bool((self._shared[end - wanted.numel() : end] == wanted).all())

    def rows(self, block: Block, leaf: int, count: int) -> "Tensor":
        """The memory of one leaf in the first `count` groups: (count, bytes) uint8, from the first element on."""
        import torch

        place = block.first[leaf]
        lead = place.lead * getattr(torch, place.dtype).itemsize
        size = 0 if place.empty else place.span_bytes - lead
        start = place.offset + lead
        if size and count:
            self._write(start, start + block.step * (count - 1) + size)
        return self._own.as_strided((count, size), (block.step, 1), start)

    def poison(self, block: Block, count: int) -> None:
        """Fills the first `count` groups and their guards with a word nobody can know."""
        for place in block.first:
            words = self._framed(place, block.step, count)
            words.fill_(self._word)
            start = place.offset - GUARD
            self._write(start, start + (count - 1) * block.step + 8 * words.shape[1])

    def guarded(self, block: Block, count: int) -> bool:
        """Whether the guards around these poisoned groups were intact."""
        import torch

        for place in block.first:
            words = self._framed(place, block.step, count)
            behind = _GUARD_WORDS + -(-place.span_bytes // 8)
            if bool((words[:, :_GUARD_WORDS] != self._word).any() | (words[:, behind:] != self._word).any()):
                return False
            if part := place.span_bytes % 8:
                held = words[:, behind - 1 : behind].clone(memory_format=torch.contiguous_format)
                last = held.view(torch.uint8)[:, part:]
                wanted = torch.tensor([self._word]).view(torch.uint8)[part:].to(last.device)
                if bool((last != wanted).any()):
                    return False
        return True

    def unwritten(self, block: Block, count: int) -> list[tuple[int, int]]:
        """(group, leaf) where some aligned word of a poisoned place still held the poison."""
        found: list[tuple[int, int]] = []
        for leaf, place in enumerate(block.first):
            within = self._framed(place, block.step, count)[:, _GUARD_WORDS : _GUARD_WORDS + place.span_bytes // 8]
            found += [(int(group), leaf) for group in (within == self._word).any(1).nonzero().reshape(-1).tolist()]
        return sorted(found)

    def take(self, place: Place) -> "Tensor":
        """A private copy of what lay there."""
        import torch

        dtype = getattr(torch, place.dtype)
        made = torch.empty_strided(place.shape, place.stride, dtype=dtype, device=self._own.device)
        if not place.empty:
            held = self._own[place.offset : place.offset + place.span_bytes].clone().view(dtype)
            made.copy_(held.as_strided(place.shape, place.stride, place.lead))
        return made

    def _write(self, start: int, end: int) -> "Tensor":
        """That part of the twin, which goes over with the next `publish`."""
        self._dirty = (min(self._dirty[0], start), max(self._dirty[1], end))
        return self._own[start:end]

    def _framed(self, place: Place, step: int, count: int) -> "Tensor":
        """`count` places of the twin, `step` bytes apart, with their guards: (count, words) int64."""
        import torch

        words = 2 * _GUARD_WORDS + -(-place.span_bytes // 8)
        whole = self._own[: self.size // 8 * 8].view(torch.int64)
        return whole.as_strided((count, words), (step // 8, 1), (place.offset - GUARD) // 8)

    def _finish(self) -> None:
        import torch

        if self._own.is_cuda:
            torch.cuda.synchronize()


class DeviceChildArena:
    """The child's side."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def tensor(self, place: Place) -> "Tensor":
        """The tensor at `place`, with a storage of its own."""
        import torch

        from kernelwright.judge.cuda_memory import CudaMemory, tensor_at

        dtype = getattr(torch, place.dtype)
        if place.empty:
            return torch.empty_strided(place.shape, place.stride, dtype=dtype, device=self._memory.bytes.device)
        assert isinstance(self._memory, CudaMemory)
        flat = tensor_at(self._memory.address + place.offset, place.span_bytes).view(dtype)
        return flat.as_strided(place.shape, place.stride, place.lead)


def memory_of(tensor: "Tensor") -> "Tensor":
    """The bytes of a plain tensor from its first element to its last, gaps included: (n,) uint8."""
    import torch

    elements = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.detach().as_strided((elements if tensor.numel() else 0,), (1,), tensor.storage_offset())
    return flat.view(torch.uint8) if flat.numel() else flat.to(torch.uint8)


def moved(tensor: "Tensor", device: str) -> "Tensor":
    """The tensor on `device`, with its strides, gaps and (within bounds) its offset."""
    import torch

    if tensor.device.type == device or tensor.layout is not torch.strided:
        return tensor.to(device)
    size = tensor.element_size()
    lead = int(tensor.storage_offset())
    lead = lead if lead <= _LEAD_ELEMENTS else _LEAD_ELEMENTS + lead % _ALIGN
    held = memory_of(tensor)
    flat = torch.empty(lead * size + held.numel(), dtype=torch.uint8, device=device)
    flat[lead * size :].copy_(held)
    return flat.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), lead)
