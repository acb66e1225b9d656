"""How fast a chip could run a kernel at best, from what was counted. An estimate: nothing here ran on an Apple GPU.

Each part of the chip gets the time that it needs alone; the slowest names the bound. A real run takes longer: launches,
latency, register pressure and dependent instructions are not in it.
"""

from dataclasses import dataclass

from kernelwright.metal.chips import (
    BUSY_SIMDGROUPS_PER_CORE,
    LINE_BYTES,
    LOCAL_BYTES_PER_CORE,
    MATRIX_SHARE,
    TRANSCENDENTALS_PER_CORE_CYCLE,
    Chip,
    Trust,
    chip,
)
from kernelwright.simt.counters import Counters

__all__ = ["Estimate", "roofline"]


@dataclass(frozen=True)
class Estimate:
    """Lower bounds in microseconds. `memory_us` moves every line touched once, as with a perfect cache;
    `uncached_us` moves every transaction: the truth for device memory lies between them.

    `resident_simdgroups` is how many of this launch's simdgroups a core holds, by its threadgroup memory and by how
    many there are; under BUSY_SIMDGROUPS_PER_CORE its arithmetic idles. `notes` say what a reader must know.
    """

    chip: str
    memory_us: float
    uncached_us: float
    arithmetic_us: float
    transcendental_us: float
    matrix_us: float
    local_us: float
    resident_simdgroups: int
    intensity: float
    notes: tuple[str, ...]

    @property
    def bound(self) -> str:
        """What takes longest: "memory", "arithmetic", "transcendental", "matrix" or "local"."""
        times = {
            "memory": self.memory_us,
            "arithmetic": self.arithmetic_us,
            "transcendental": self.transcendental_us,
            "matrix": self.matrix_us,
            "local": self.local_us,
        }
        return max(times, key=lambda name: times[name])

    @property
    def at_least_us(self) -> float:
        """No run on this chip is faster, as far as the table and the counters are right."""
        return max(self.memory_us, self.arithmetic_us, self.transcendental_us, self.matrix_us, self.local_us)


def roofline(counters: Counters, on: Chip | str) -> Estimate:
    """What `counters` would cost `on` that chip ("M2 Max"). Raises UnknownNameError."""
    on = chip(on) if isinstance(on, str) else on
    device, local = counters.of("buffer"), counters.of("group")
    busy_cores = min(on.cores, counters.groups)
    cycles_per_us = busy_cores * on.clock_ghz * 1e3
    flops_per_us = on.tflops * 1e6 * busy_cores / on.cores
    simds = -(-counters.group_threads // counters.simd_width)
    groups_per_core = -(-counters.groups // on.cores)
    if counters.group_memory_bytes:
        groups_per_core = min(groups_per_core, LOCAL_BYTES_PER_CORE // counters.group_memory_bytes)
    resident = groups_per_core * simds
    touched = max(device.touched_bytes, 1)
    return Estimate(
        on.name,
        memory_us=device.touched_bytes / on.bandwidth_gbs / 1e3,
        uncached_us=device.transactions * LINE_BYTES / on.bandwidth_gbs / 1e3,
        arithmetic_us=counters.flops / flops_per_us,
        transcendental_us=counters.transcendentals / (TRANSCENDENTALS_PER_CORE_CYCLE * cycles_per_us),
        matrix_us=counters.matrix_flops / (flops_per_us * MATRIX_SHARE),
        local_us=local.transactions / cycles_per_us,
        resident_simdgroups=resident,
        intensity=(counters.flops + counters.matrix_flops) / touched,
        notes=tuple(_notes(counters, on, resident, busy_cores)),
    )


def _notes(counters: Counters, on: Chip, resident: int, busy_cores: int) -> list[str]:
    device, local = counters.of("buffer"), counters.of("group")
    notes = [f"{on.tflops} TFLOPS: {on.trust_tflops.value}; {on.bandwidth_gbs} GB/s: {on.trust_bandwidth.value}"]
    if on.trust_bandwidth is not Trust.MEASURED:
        notes.append("sustained bandwidth was about 79 % of the stated where somebody measured it (M5)")
    if busy_cores < on.cores:
        notes.append(f"{counters.groups} threadgroups keep {busy_cores} of {on.cores} cores busy")
    if resident < BUSY_SIMDGROUPS_PER_CORE:
        notes.append(f"a core holds {resident} simdgroups; it needs about {BUSY_SIMDGROUPS_PER_CORE} to stay busy")
    if device.transactions and device.coalescing < 0.5:
        notes.append(f"{device.coalescing:.0%} of the bytes that lines carry are asked for: accesses are scattered")
    if local.transactions and local.conflict_cycles * 4 > local.transactions:
        share = local.conflict_cycles / local.transactions
        notes.append(f"{share:.0%} of threadgroup memory's cycles are bank conflicts (32 banks of 4 bytes assumed)")
    if not counters.complete:
        notes.append("transactions and conflicts were extrapolated from the first requests of each threadgroup")
    return notes
