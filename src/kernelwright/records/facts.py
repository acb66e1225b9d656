"""What is known of a machine."""

from dataclasses import dataclass
from functools import cached_property

from kernelwright.records.digest import digest


@dataclass(frozen=True)
class Facts:
    """A device as writers and judge need it. Zero means not known."""

    device: str
    """"cpu", "cuda:0", "mps"."""
    name: str
    """As its maker calls it: "AMD EPYC 7763"."""
    arch: str
    """"x86_64", "arm64", "sm_90", "apple-m4"."""
    features: tuple[str, ...] = ()
    """Instruction-set features, resolved (never "native"), sorted."""
    threads: int = 1
    """Threads that kernels may use."""
    memory_bytes: int = 0
    cache_bytes: tuple[int, ...] = ()
    """Data caches from the innermost, one core's view."""
    bandwidth_gbs: float = 0.0
    """Measured memory bandwidth of all threads, read plus write."""
    cache_bandwidth_gbs: tuple[float, ...] = ()
    """Measured bandwidth of all threads for data that fits each of `cache_bytes`."""
    peak_gflops: tuple[tuple[str, float], ...] = ()
    """By dtype."""
    disturbed: bool = False
    """Whether other work ran while it was measured: then all of it may be too low, several times over."""


@dataclass(frozen=True)
class Environment:
    """Everything but the candidate that a timing depends on."""

    facts: Facts
    system: str
    """Operating system and kernel."""
    python: str
    torch: str
    threads: int
    toolchain: tuple[tuple[str, str], ...] = ()
    """Compilers and runtimes with their versions."""
    settings: tuple[tuple[str, str], ...] = ()
    """OMP_* and what else of the environment changes speed."""

    @cached_property
    def digest(self) -> str:
        return digest("environment", self)
