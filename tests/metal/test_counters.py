"""What is counted is what the kernel does: kernels whose traffic and work can be told by hand."""

import ctypes
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelwright import simt
from kernelwright.metal import frontend
from kernelwright.simt.counters import Counters, Traffic

THREADS, GROUP = 1024, 128
SIMDS = THREADS // 32

SOURCE = """
#include <metal_stdlib>
using namespace metal;
#define ARGUMENTS device const float* x [[buffer(0)]], device float* y [[buffer(1)]], \
    uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]
kernel void copy(ARGUMENTS) { y[i] = x[i]; }
kernel void strided(ARGUMENTS) { y[i] = x[i * 32]; }
kernel void same(ARGUMENTS) { y[i] = x[0]; }
kernel void vectors(ARGUMENTS) { if (i < 256) ((device float4*)y)[i] = ((device const float4*)x)[i]; }
kernel void banks(ARGUMENTS) {
  threadgroup float tile[32 * 32];
  tile[(t % 32) * 32] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = tile[(t % 32) * 32];
}
kernel void work(ARGUMENTS) { y[i] = exp(fma(x[i], 2.0f, 3.0f)) / 7.0f; }
kernel void loops(ARGUMENTS) {
  float sum = 0;
  for (uint k = 0; k < i % 4; k++) sum += x[k];
  y[i] = sum;
}
kernel void exchange(ARGUMENTS) { y[i] = simd_shuffle_xor(x[i], 1); }
kernel void adds(device atomic_int* n [[buffer(1)]]) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }
kernel void product(ARGUMENTS) {
  simdgroup_float8x8 a, b, c = simdgroup_float8x8(0);
  simdgroup_load(a, x, 8);
  simdgroup_load(b, x + 64, 8);
  simdgroup_multiply_accumulate(c, a, b, c);
  simdgroup_store(c, y + i / 32 * 64, 8);
}
"""


@pytest.fixture(scope="module")
def built() -> simt.Library:
    unit = frontend.module(frontend.source(SOURCE)).unit
    return simt.build(unit, [entry.name for entry in unit.entries], count=True)


def counted(built: simt.Library, kernel: str) -> Counters:
    x = np.arange(THREADS * 32, dtype=np.float32)
    y = np.zeros(THREADS * 64, np.float32)
    memory = {0: (x.ctypes.data, x.nbytes), 1: (y.ctypes.data, y.nbytes)}
    report = built.launch(kernel, memory, threads=[THREADS], group_size=[GROUP])
    assert report.counters is not None and report.faults == ()
    return report.counters


def traffic(counters: Counters, name: str) -> Traffic:
    return next(item for item in counters.traffic if name in item.name)


@pytest.mark.parametrize(
    ("kernel", "read", "touched", "requests", "transactions"),
    [
        ("copy", 4 * THREADS, 4 * THREADS, SIMDS, SIMDS),
        ("strided", 4 * THREADS, 128 * THREADS, SIMDS, THREADS),
        ("same", 4 * THREADS, 128, SIMDS, SIMDS),
        ("vectors", 16 * 256, 16 * 256, 8, 32),
    ],
)
def test_reads_of_a_buffer(
    built: simt.Library, kernel: str, read: int, touched: int, requests: int, transactions: int
) -> None:
    x = traffic(counted(built, kernel), "(x)")
    assert (x.bytes_read, x.bytes_written, x.touched_bytes) == (read, 0, touched)
    assert (x.requests, x.transactions) == (requests, transactions)


def test_coalescing_is_what_of_the_lines_is_asked_for(built: simt.Library) -> None:
    assert traffic(counted(built, "copy"), "(x)").coalescing == 1
    assert traffic(counted(built, "strided"), "(x)").coalescing == pytest.approx(4 / 128)


def test_bank_conflicts(built: simt.Library) -> None:
    """All lanes of a simdgroup in one bank: a cycle for each where one would do for all."""
    counters = counted(built, "banks")
    tile = traffic(counters, "tile")
    assert (tile.bytes_read, tile.bytes_written) == (4 * THREADS, 4 * THREADS)
    assert (tile.requests, tile.transactions, tile.conflict_cycles) == (2 * SIMDS, 2 * THREADS, 2 * SIMDS * 31)
    assert counters.barriers == THREADS // GROUP and counters.group_memory_bytes == 32 * 32 * 4


def test_work(built: simt.Library) -> None:
    counters = counted(built, "work")
    assert counters.transcendentals == THREADS
    assert counters.flops == 3 * THREADS  # two of the fused multiply-add, one of the division
    assert counted(built, "loops").flops == THREADS // 4 * (0 + 1 + 2 + 3)


def test_exchanges_atomics_and_matrices(built: simt.Library) -> None:
    assert counted(built, "exchange").exchanges == SIMDS
    counters = counted(built, "adds")
    assert counters.atomics == THREADS and traffic(counters, "(n)").bytes_written == 4 * THREADS
    assert counted(built, "product").matrix_flops == SIMDS * 2 * 8 * 8 * 8


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_memory_behind_the_stacks_is_not_theirs(built: simt.Library) -> None:
    """The arena of a group's threads ends before its alignment does: what the system maps behind it is seen, too."""
    counted(built, "banks")  # makes the arena
    spans = [line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines()]
    used, alignment = (1 << 20) + (1024 * 128 << 10), 256 << 20
    arenas = {
        int(low, 16) for low, high in spans if int(low, 16) % alignment == 0 and int(high, 16) - int(low, 16) >= used
    }
    assert arenas
    kept = []
    for _ in range(4000):  # the highest gap is taken first: fill up to one behind an arena
        kept.append(mmap.mmap(-1, 16 << 20))
        address = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
        if address // alignment * alignment in arenas:
            break
    else:
        pytest.skip("other mappings lie behind each arena")
    kept.pop().close()
    assert traffic(counted(built, "copy"), "(x)").bytes_read == 4 * THREADS
