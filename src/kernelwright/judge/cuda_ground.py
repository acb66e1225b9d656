"""NVIDIA GPUs as a ground for judging. The why: docs/design/judge_cuda.md."""

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.records import flatten

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.grounds import Inputs, JudgeArena, TheirArena, Timed
    from kernelwright.records import Signature

# The driver names its threads, by files of the process itself.
_DEVICES = (
    "/proc/self",
    "/dev/nvidia[0-9]*",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-caps/*",
)
# What the driver looks at when a context is made: its own settings, the GPU's place on the bus, memory, its process.
_READ = (
    "/proc/driver/nvidia",
    "/proc/driver/nvidia-uvm",
    "/proc/devices",
    "/proc/self",
    "/proc/version",
    "/proc/sys/vm",
    "/proc/sys/kernel",
    "/sys/devices",
    "/sys/bus/pci",
    "/sys/class/drm",
    "/sys/module/nvidia",
    "/etc/nvidia",
)
_LEAST_WINDOW_US = 15_000.0
"""The GPU changes from one process to the other in some 0.3 ms, and windows scatter by as much: in windows of 3 ms the
ratios of identical kernels lay 1 per cent apart, in these 0.2."""
_UNEVEN_US = 100.0
"""Honest processes were seen to differ by 75 us in copying the same results."""
_WINDOW_SHARE = 32
_WINDOW_BYTES = 4 << 30

_finish: Callable[[], None] = getattr(torch._C, "_cuda_synchronize", torch.cuda.synchronize)
"""torch's wait for the whole device, looked up before any candidate's text was read; the surroundings watch it."""


@dataclass(frozen=True)
class CudaGround:
    """The GPU that torch calls current. Kernels run on after a call has returned and after the process was stopped:
    hence `finish`, and device_arena.py."""

    device: str = "cuda"
    counts_memory: bool = False
    """The driver maps more than a kernel ever touches."""
    executing: tuple[str, ...] = ("triton",)

    def arena(self, size: int) -> "JudgeArena":
        from kernelwright.judge.cuda_memory import CudaMemory
        from kernelwright.judge.device_arena import DeviceArena

        return DeviceArena(CudaMemory.create(size))

    def inputs(self, base: "Sequence[Tensor]", signature: "Signature") -> "Inputs":
        from kernelwright.judge.device_inputs import DeviceFresh

        return DeviceFresh(base, signature)

    def timed(self) -> "Timed":
        from kernelwright.judge.grounds import Timed

        size = min(_WINDOW_BYTES, torch.cuda.get_device_properties().total_memory // _WINDOW_SHARE)
        return Timed(size, _LEAST_WINDOW_US, copied_us=float("inf"), copied_bytes=size // 4, uneven_us=_UNEVEN_US)

    def readable(self) -> tuple[str, ...]:
        return (*_READ, *map(str, _library_folders()))

    def devices(self) -> tuple[str, ...]:
        return tuple(path for pattern in _DEVICES for path in sorted(glob.glob(pattern)) if os.path.exists(path))

    def variables(self) -> tuple[tuple[str, str], ...]:
        # Where Triton finds the driver; else it would start a program to ask.
        return tuple(("TRITON_LIBCUDA_PATH", str(folder)) for folder in _library_folders()[:1])

    def enter(self) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        _finish()

    def theirs(self, file: int, size: int) -> "TheirArena":
        from kernelwright.judge.cuda_memory import CudaMemory
        from kernelwright.judge.device_arena import DeviceChildArena

        return DeviceChildArena(CudaMemory.open(file, size))

    def touch(self) -> None:
        torch.zeros(1, device="cuda")

    def finish(self) -> None:
        _finish()

    def firm(self, result: Any) -> "list[Tensor]":
        leaves, _ = flatten(result, lambda value: isinstance(value, torch.Tensor))
        with torch.no_grad():
            return [leaf.clone() for leaf in leaves]


def _library_folders() -> list[Path]:
    """Where the driver's library lies, as this process has it loaded."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    paths = {Path(line.split(maxsplit=5)[5]) for line in maps.splitlines() if "libcuda.so" in line}
    return sorted({path.parent for path in paths})
