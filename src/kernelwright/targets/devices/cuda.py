"""NVIDIA GPUs: what torch and the driver say of the first, and a short measurement remembered on disk."""

import ctypes
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import Any

from kernelwright.errors import KernelwrightError
from kernelwright.home import home
from kernelwright.records import Facts, decode, digest, encode
from kernelwright.targets.locking import alone
from kernelwright.toolchain.driver import driver

_COPY_BYTES = 2 << 30
_CACHED_BYTES = 12 << 20
_MATRIX = 8192
_REPEATS = 5
_CACHE_FACTOR = 2.0
"""A cache is at least so many times faster than memory on every GPU with one; short kernels, which mostly start and
end, make it look slower than it is, and the judge needs what nobody can exceed."""
_OLDEST_ARCH = "sm_80"


def missing() -> str | None:
    """Why nothing can run on an NVIDIA GPU here, as a sentence; None if it can. torch is imported only where there is
    a GPU."""
    if not find_spec("torch"):
        return "PyTorch is not installed: pip install torch"
    if not count():
        return "there is no NVIDIA GPU here (no libcuda.so.1, or it finds no device)"
    import torch

    if not torch.version.cuda:
        return f"torch {torch.__version__} was built without CUDA: pip install torch from pytorch.org's CUDA index"
    return None if torch.cuda.is_available() else "torch cannot use the NVIDIA GPU here: torch.cuda.is_available()"


@cache
def count() -> int:
    """How many GPUs the driver finds; 0 without a driver."""
    try:
        library = driver()
    except KernelwrightError:
        return 0
    found = ctypes.c_int()
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(found)):
        return 0
    return found.value


@cache
def arch() -> str:
    """The first GPU's, as compilers spell it ("sm_90"); the oldest that we compile for where there is none."""
    if not count():
        return _OLDEST_ARCH
    numbers = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        found = ctypes.c_int()
        driver().cuDeviceGetAttribute(ctypes.byref(found), attribute, 0)
        numbers.append(found.value)
    return f"sm_{numbers[0]}{numbers[1]}"


@cache
def facts() -> Facts:
    """The first GPU, measured (in about a second) the first time it is asked for."""
    described = describe()
    path = home() / "devices" / f"cuda-{digest('cuda', described)[:16]}.json"
    with alone(path.with_suffix(".lock")):
        try:
            return decode(Facts, json.loads(path.read_text()))
        except (OSError, TypeError, ValueError, KeyError):
            pass  # not measured yet, or by an older version
        result = measured(described)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(encode(result), indent=1))
        partial.replace(path)
        return result


def describe() -> Facts:
    """What can be told without measuring."""
    import torch

    found = torch.cuda.get_device_properties(0)
    return Facts(
        device="cuda",
        name=found.name,
        arch=arch(),
        features=(f"multiprocessors {found.multi_processor_count}",),
        memory_bytes=found.total_memory,
        cache_bytes=(int(getattr(found, "L2_cache_size", 0)),) if getattr(found, "L2_cache_size", 0) else (),
    )


def measured(facts: Facts) -> Facts:
    """`facts` with bandwidths and matrix products, each the best of a few."""
    import torch

    size = min(_COPY_BYTES, facts.memory_bytes // 8)
    source = torch.ones(size // 4, device="cuda")
    target = torch.empty_like(source)
    memory = 2 * size / _best_s(torch, lambda: target.copy_(source)) / 1e9
    small, other = source[: _CACHED_BYTES // 4], target[: _CACHED_BYTES // 4]
    cached = 2 * _CACHED_BYTES / _best_s(torch, lambda: other.copy_(small), inner=20) / 1e9
    caches = tuple(round(max(cached, _CACHE_FACTOR * memory), 1) for _ in facts.cache_bytes)
    peak = tuple((name, _product_gflops(torch, name)) for name in ("float32", "bfloat16", "float16"))
    torch.cuda.empty_cache()
    return replace(facts, bandwidth_gbs=round(memory, 1), cache_bandwidth_gbs=caches, peak_gflops=peak)


def _product_gflops(torch: Any, dtype: str) -> float:
    size = _MATRIX if dtype != "float32" else _MATRIX // 2
    a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(a)
    return round(2 * size**3 / _best_s(torch, lambda: torch.mm(a, b, out=out)) / 1e9, 1)


def _best_s(torch: Any, call: Callable[[], Any], inner: int = 1) -> float:
    call()
    best = float("inf")
    for _ in range(_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / 1e3 / inner)
    return best
