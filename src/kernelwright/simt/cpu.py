"""The host of CPU cores: loads compiled entries and runs groups on worker threads."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kernelwright.errors import LaunchError
from kernelwright.simt import glue
from kernelwright.simt.library import Argument, Grid, Library, Report, sized
from kernelwright.simt.store import Stored
from kernelwright.simt.unit import Entry

_ARGUMENTS = 32
_GROUP_MEMORY_BYTES = 256 << 10
_ALIGNMENT = 256
_LOG_BYTES = 64 << 10
_CHUNK_THREADS = 1 << 14
"""What a worker takes at once from a grid whose groups are small."""

FAULTS = {
    1: "its threads wait at different barriers: a barrier in a branch that only some threads of the group take",
}

_Position = ctypes.c_uint32 * 3


class _Launch(ctypes.Structure):
    """struct Launch of runtime/cpu.hpp."""

    _fields_ = (
        ("buffers", ctypes.c_void_p * _ARGUMENTS),
        ("buffer_bytes", ctypes.c_uint64 * _ARGUMENTS),
        ("group_memory", ctypes.c_uint32 * _ARGUMENTS),
        ("grid", _Position),
        ("group", _Position),
        ("groups", _Position),
        ("fault", ctypes.c_uint32),
        ("fault_group", _Position),
        ("total", ctypes.c_uint64),
        ("next", ctypes.c_uint64),
        ("chunk", ctypes.c_uint64),
        ("log", ctypes.c_void_p),
        ("log_capacity", ctypes.c_uint64),
        ("log_bytes", ctypes.c_uint64),
        ("switches", ctypes.c_uint64),
        ("barriers", ctypes.c_uint64),
        ("exchanges", ctypes.c_uint64),
    )


def library(path: Path, entries: Sequence[Entry], stored: Stored) -> Library:
    """The entries in the shared library `path`, whose record tells each one's mode."""
    host = _CpuHost(path, stored.record["modes"])
    entries = sized(entries, stored.record["group_memory"])
    return Library(entries, host, path=path, cached=stored.cached, log=stored.record["log"])


def workers() -> int:
    """How many threads a launch uses: $KERNELWRIGHT_THREADS, else as many as this process may run at once."""
    named = os.environ.get("KERNELWRIGHT_THREADS", "")
    if named.isdigit() and int(named):
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _CpuHost:
    def __init__(self, path: Path, modes: Sequence[Literal["loop", "regions", "fiber"]]) -> None:
        self._library = ctypes.CDLL(str(path))
        self._modes = modes

    def launch(
        self, index: int, entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]
    ) -> Report:
        mode = self._modes[index]
        if mode == "loop":
            grid = _recut(entry, grid)
        launch, kept = fill_launch(entry, arguments, grid, group_memory)
        function = self._library[f"simt_{'loop' if mode == 'loop' else 'fiber'}_{index}"]
        threads = max(1, min(workers(), launch.total))
        done = pool()(function, ctypes.byref(launch), threads, entry.name.encode())
        if done:
            raise LaunchError(f"{entry.name}: no address space for the stacks of {threads} worker threads")
        if launch.fault:
            raise LaunchError(f"{entry.name}, group {tuple(launch.fault_group)}: {FAULTS[launch.fault]}")
        log = log_of(launch)
        del kept
        return Report(entry.name, mode, launch.total, threads, launch.switches, launch.barriers, launch.exchanges, log)


def _recut(entry: Entry, grid: Grid) -> Grid:
    """Long rows instead of groups, where nothing can tell: better vector code, fewer turns."""
    if not glue.sees_only_its_place(entry):
        return grid
    return Grid(grid.threads, (min(grid.threads[0], _CHUNK_THREADS), 1, 1))


def fill_launch(
    entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]
) -> tuple[_Launch, list[Any]]:
    """The launch, and what must outlive it."""
    launch = _Launch()
    kept: list[Any] = []
    for number, argument in arguments.items():
        if not 0 <= number < _ARGUMENTS:
            raise LaunchError(f"{entry.name}: there is no buffer {number}; 0 to {_ARGUMENTS - 1} are there")
        if isinstance(argument, bytes):
            held = ctypes.create_string_buffer(argument, max(len(argument), 16))
            kept.append(held)
            launch.buffers[number], launch.buffer_bytes[number] = ctypes.addressof(held), len(argument)
        else:
            launch.buffers[number], launch.buffer_bytes[number] = argument
    offset = 0
    for number, size in sorted(group_memory.items()):
        if not 0 <= number < _ARGUMENTS or size < 0:
            raise LaunchError(f"{entry.name}: group memory {number} of {size} bytes cannot be")
        launch.group_memory[number] = offset
        offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    if offset > _GROUP_MEMORY_BYTES:
        raise LaunchError(f"{entry.name}: {offset} bytes of group memory; at most {_GROUP_MEMORY_BYTES} are there")
    launch.grid[:], launch.group[:], launch.groups[:] = grid.threads, grid.group, grid.groups
    x, y, z = grid.groups
    launch.total = x * y * z
    group_threads = grid.group[0] * grid.group[1] * grid.group[2]
    launch.chunk = max(1, min(_CHUNK_THREADS // group_threads, launch.total // (8 * workers())))
    log = _log_buffer()
    launch.log, launch.log_capacity = ctypes.addressof(log), _LOG_BYTES
    return launch, kept


def log_of(launch: Any) -> str:
    """What the kernel wrote, cut."""
    return ctypes.string_at(launch.log, min(launch.log_bytes, _LOG_BYTES)).decode(errors="replace")


@cache
def _log_buffer() -> Any:
    return ctypes.create_string_buffer(_LOG_BYTES)


_pool_file: Path | None = None


def use_pool(path: Path) -> None:
    """Has this process take the library of worker threads from `path`; too late once it has one."""
    global _pool_file
    _pool_file = path


@cache
def pool() -> Any:
    """simt_pool_run(entry, launch, threads, name): runs a compiled entry on worker threads; 0 where they could run."""
    from kernelwright.simt.compiling import pool_library

    function = ctypes.CDLL(str(_pool_file or pool_library())).simt_pool_run
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p]
    function.restype = ctypes.c_int
    return function
