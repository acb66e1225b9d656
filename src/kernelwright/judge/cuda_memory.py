"""Memory of an NVIDIA GPU that two processes share: an allocation of its own, handed over as an open file.

Not by cudaIpcGetMemHandle, which shares the whole block that an allocator once got, with all that lies beside, and
which the driver opens for the same user only: a child is nobody. An open file is a right in itself.
"""

import ctypes
import os
from typing import TYPE_CHECKING, Any

from kernelwright.toolchain.driver import ask

if TYPE_CHECKING:
    from torch import Tensor

_PINNED, _FILE, _ON_DEVICE, _READ_WRITE, _MINIMUM = 1, 1, 1, 3, 0


class _Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


class CudaMemory:
    """`size` bytes on the current GPU, mapped into this process. `bytes`: them as a uint8 tensor."""

    def __init__(self, handle: ctypes.c_ulonglong, size: int, file: int) -> None:
        import torch

        self.size, self.file, self._handle = size, file, handle
        device = torch.cuda.current_device()
        address = ctypes.c_uint64()
        ask("shared memory", "cuMemAddressReserve", ctypes.byref(address), size, 0, 0, 0)
        ask("shared memory", "cuMemMap", address.value, size, 0, handle.value, 0)
        access = _Access(_Location(_ON_DEVICE, device), _READ_WRITE)
        ask("shared memory", "cuMemSetAccess", address.value, size, ctypes.byref(access), 1)
        self.address = address.value
        self.bytes = tensor_at(self.address, size)

    @classmethod
    def create(cls, size: int) -> "CudaMemory":
        """A new allocation of at least `size` bytes; `file` is what opens it elsewhere."""
        import torch

        torch.cuda.synchronize()  # makes torch's context this thread's
        properties = _Properties(_PINNED, _FILE, _Location(_ON_DEVICE, torch.cuda.current_device()))
        grain = ctypes.c_size_t()
        ask("shared memory", "cuMemGetAllocationGranularity", ctypes.byref(grain), ctypes.byref(properties), _MINIMUM)
        size = -(-size // grain.value) * grain.value
        handle, file = ctypes.c_ulonglong(), ctypes.c_int(-1)
        ask("shared memory", "cuMemCreate", ctypes.byref(handle), size, ctypes.byref(properties), 0)
        ask("shared memory", "cuMemExportToShareableHandle", ctypes.byref(file), handle.value, _FILE, 0)
        os.set_inheritable(file.value, False)
        return cls(handle, size, file.value)

    @classmethod
    def open(cls, file: int, size: int) -> "CudaMemory":
        """What another process created; `file` is closed."""
        handle = ctypes.c_ulonglong()
        ask("shared memory", "cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(file), _FILE)
        os.close(file)
        return cls(handle, size, -1)

    def close(self) -> None:
        """Gives it back once the other process has let go of it too. No tensor may lie in it any more. Idempotent."""
        if not self.address:
            return
        import torch

        torch.cuda.synchronize()
        del self.bytes
        ask("shared memory", "cuMemUnmap", self.address, self.size)
        ask("shared memory", "cuMemAddressFree", self.address, self.size)
        ask("shared memory", "cuMemRelease", self._handle.value)
        self.address = 0
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class _Bytes:
    """Bytes at an address of the GPU, as torch takes them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


def tensor_at(address: int, size: int) -> "Tensor":
    """(size,) uint8: a storage of its own on memory that stays another's."""
    import torch

    return torch.as_tensor(_Bytes(address, size), device=f"cuda:{torch.cuda.current_device()}")
