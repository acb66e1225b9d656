"""A request to compile something, and what came of it."""

from dataclasses import dataclass
from functools import cached_property

from kernelwright.records.digest import digest


@dataclass(frozen=True)
class BuildRequest:
    """Source text and everything that decides what it is compiled to, but for the toolchain."""

    language: str
    """"cpp", "inductor"."""
    source: str
    options: tuple[tuple[str, str], ...] = ()
    """Sorted by name."""

    @cached_property
    def digest(self) -> str:
        return digest("build", self)


@dataclass(frozen=True)
class Build:
    """A compiled result on this machine's disk, which nobody but the broker writes."""

    path: str
    """A shared library, or an AOTInductor package."""
    cached: bool
    seconds: float
    log: str = ""
