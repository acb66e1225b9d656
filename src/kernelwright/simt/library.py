"""Compiled entries, ready to be launched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from kernelwright.errors import LaunchError, UnknownNameError
from kernelwright.simt.check import Fault
from kernelwright.simt.counters import Counters
from kernelwright.simt.unit import Entry

Argument = tuple[int, int] | bytes
"""What a buffer holds: the address and bytes of memory of the host (of the GPU, on cuda), or bytes that are copied."""

MAX_GROUP_THREADS = 1024


@dataclass(frozen=True)
class Grid:
    """Threads of the grid, of a whole group, and groups, each (x, y, z)."""

    threads: tuple[int, int, int]
    group: tuple[int, int, int]

    @property
    def groups(self) -> tuple[int, int, int]:
        x, y, z = (-(-t // g) for t, g in zip(self.threads, self.group, strict=True))
        return x, y, z


@dataclass(frozen=True)
class Report:
    """What a launch did. `mode`: "loop" where threads never wait, "regions" where they do and the code was cut there,
    "fiber" where each ran on a stack of its own.

    `switches` between fibers, `barriers` passed by a group and `exchanges` between lanes, summed over all groups; None
    on a GPU, which does not count them. `log` is what the kernel wrote. `faults` are what a check build found,
    `remarks` what breaks the rules and may work all the same, `counters` what a counting build counted.
    """

    name: str
    mode: Literal["loop", "regions", "fiber", "gpu"]
    groups: int
    workers: int
    switches: int | None = None
    barriers: int | None = None
    exchanges: int | None = None
    log: str = ""
    faults: tuple[Fault, ...] = ()
    remarks: tuple[Fault, ...] = ()
    counters: Counters | None = None


class Host(Protocol):
    """Runs one entry over a grid."""

    def launch(
        self, index: int, entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]
    ) -> Report: ...


class Library:
    """Entries compiled for one host."""

    def __init__(self, entries: Sequence[Entry], host: Host, *, path: Path, cached: bool, log: str) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.path = path
        self.cached = cached
        self.log = log
        self._index = {entry.name: i for i, entry in enumerate(entries)}
        self._host = host

    def launch(
        self,
        name: str,
        arguments: Mapping[int, Argument],
        *,
        threads: Sequence[int],
        group_size: Sequence[int],
        group_memory: Mapping[int, int] | None = None,
    ) -> Report:
        """Runs entry `name` over `threads` in groups of `group_size`; both have one to three numbers, x first.

        `arguments` maps buffer numbers to memory, `group_memory` numbers to bytes. Groups at an edge are smaller where
        the size does not divide the threads. Raises LaunchError.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise UnknownNameError("kernel", name, self.entries)
        grid = Grid(_three(name, "threads", threads), _three(name, "group_size", group_size))
        group_memory = group_memory or {}
        _check(entry, arguments, grid, group_memory)
        return self._host.launch(self._index[name], entry, arguments, grid, group_memory)


def sized(entries: Sequence[Entry], group_memory: Sequence[int]) -> tuple[Entry, ...]:
    """The entries with the bytes of their group variables."""
    pairs = zip(entries, group_memory, strict=True)
    return tuple(replace(entry, group_memory_bytes=size) for entry, size in pairs)


def _three(name: str, what: str, numbers: Sequence[int]) -> tuple[int, int, int]:
    values = tuple(numbers)
    if not 1 <= len(values) <= 3 or any(value < 1 or value >= 1 << 32 for value in values):
        raise LaunchError(f"{name}: {what} must be one to three numbers of at least 1, not {values}")
    x, y, z = (*values, 1, 1)[:3]
    return int(x), int(y), int(z)


def _check(entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]) -> None:
    threads = grid.group[0] * grid.group[1] * grid.group[2]
    limit = min(MAX_GROUP_THREADS, entry.max_threads or MAX_GROUP_THREADS)
    if threads > limit:
        raise LaunchError(f"{entry.name}: a group of {threads} threads is asked for; it may have {limit}")
    for parameter in entry.parameters:
        if parameter.kind == "buffer" and parameter.index not in arguments:
            raise LaunchError(f"{entry.name}: buffer {parameter.index} ({parameter.name}) is missing")
        if parameter.kind == "buffer" and parameter.writable and isinstance(arguments.get(parameter.index), bytes):
            raise LaunchError(
                f"{entry.name}: the kernel may write buffer {parameter.index} ({parameter.name}): no bytes"
            )
        if parameter.kind == "group_memory" and parameter.index not in group_memory:
            raise LaunchError(
                f"{entry.name}: group memory {parameter.index} ({parameter.name}) needs a size: group_memory="
                f"{{{parameter.index}: bytes}}"
            )
