"""A short measurement of the processor: bandwidth of memory and of each cache, and the speed of a matrix product."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from kernelwright.errors import CompileError, MissingError
from kernelwright.records import Facts

_BUDGET_S = 0.06
"""For each cache level, each of the ways to use it, and each product."""
_MEMORY_BYTES = 256 << 20
_MATRIX = 768

# Each thread passes `repeats` times over a part of its own. Bandwidth is that of the better of the two: reading alone
# is faster in some caches, reading and writing in others, and the judge needs what no kernel can exceed.
_KERNELS = """
template <class Pass> static inline void passes(int64 n, int64 parts, int64 repeats, const Pass& pass) {
    parallel_for(parts, 1, [&](int64 begin, int64 end) {
        for (int64 part = begin; part < end; part++)
            for (int64 i = 0; i < repeats; i++) pass(part, part * n / parts, (part + 1) * n / parts, float(i));
    });
}

kernel void update(float* x, int64 n, int64 parts, int64 repeats) {
    passes(n, parts, repeats, [&](int64, int64 begin, int64 end, float step) {
        for (int64 i = begin; i < end; i++) x[i] = x[i] * 0.5f + step;
    });
}

typedef float lanes __attribute__((vector_size(64), aligned(4)));

kernel void read(const float* x, float* out, int64 n, int64 parts, int64 repeats) {
    passes(n, parts, repeats, [&](int64 part, int64 begin, int64 end, float step) {
        lanes a = {step}, b = {}, c = {}, d = {};  // four chains, so that no addition waits for the one before
        for (int64 i = begin; i + 64 <= end; i += 64) {
            a += *(const lanes*)(x + i);
            b += *(const lanes*)(x + i + 16);
            c += *(const lanes*)(x + i + 32);
            d += *(const lanes*)(x + i + 48);
        }
        a += b + c + d;
        out[part * 16] += a[0] + a[7] + a[15];
    });
}
"""


def measured(facts: Facts) -> Facts:
    """`facts` with what was measured. Where kernels cannot be compiled the bandwidths stay unknown."""
    import torch

    torch.backends.cpu.get_cpu_capability()
    try:
        from kernelwright.targets.kernels import compile

        library = compile(_KERNELS)
        caches = tuple(
            _bandwidth_gbs(library, torch, facts, _fitting(facts, level)) for level in range(len(facts.cache_bytes))
        )
        memory = _bandwidth_gbs(library, torch, facts, _beyond(facts))
    except (CompileError, MissingError):
        caches, memory = (), 0.0
    peak = tuple((name, _product_gflops(torch, name)) for name in ("float32", "float64"))
    return dataclasses.replace(facts, bandwidth_gbs=memory, cache_bandwidth_gbs=caches, peak_gflops=peak)


def _fitting(facts: Facts, level: int) -> int:
    """Bytes that sit in a cache level of all threads together and not in the one below it. Inner caches belong to
    each core; the last of three or more is taken to be shared, and a virtual machine has not all of it."""
    size, inner = facts.cache_bytes[level], facts.cache_bytes[level - 1] if level else 0
    if level >= 2:
        return max(facts.threads * inner * 2, min(size // 2, 16 << 20))
    return facts.threads * max(size // 2, min(inner * 2, size * 3 // 4))


def _beyond(facts: Facts) -> int:
    """Bytes that no cache holds, within an eighth of the memory."""
    wanted = max(_MEMORY_BYTES, 2 * max(facts.cache_bytes, default=0))
    return min(wanted, facts.memory_bytes // 8 or wanted)


def _bandwidth_gbs(library: Any, torch: Any, facts: Facts, size: int) -> float:
    n = max(size // 4, 1024)
    x, out = torch.ones(n), torch.zeros(16 * facts.threads)
    repeats = max(1, (8 << 20) // (4 * n))
    update = _best_s(lambda: library.update(x, n, facts.threads, repeats))
    read = _best_s(lambda: library.read(x, out, n, facts.threads, repeats))
    return round(max(8 * n * repeats / update, 4 * n * repeats / read) / 1e9, 1)


def _product_gflops(torch: Any, dtype: str) -> float:
    a, b = (torch.ones(_MATRIX, _MATRIX, dtype=getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(a)
    with torch.no_grad():
        return round(2 * _MATRIX**3 / _best_s(lambda: torch.mm(a, b, out=out)) / 1e9, 1)


def _best_s(call: Callable[[], None]) -> float:
    """The shortest of as many calls as fit the budget, at least two: what disturbs only makes calls longer."""
    call()
    best, end = float("inf"), time.perf_counter() + _BUDGET_S
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best
