"""Compiles entries for a watched run, and is the host that runs them so."""

import ctypes
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright.errors import LaunchError, MissingError
from kernelwright.records import digest
from kernelwright.simt import assembly, check, check_ir, compiling, cpu, sites, store
from kernelwright.simt.check import Arena, FaultKind, Outcome, Tables, Watch
from kernelwright.simt.library import Argument, Grid, Library, Report, sized
from kernelwright.simt.unit import Entry, Unit
from kernelwright.toolchain import clang
from kernelwright.toolchain.features import arch

__all__ = ["TABLES", "build_watched", "watched_library"]

TABLES = "tables.json"
_TOLD = ("-g1", "-fdebug-compilation-dir=/-", "-DSIMT_WATCH")
"""Lines for each instruction. Clang cuts from paths what they share with its own folder: this one shares nothing."""
_OPTIMISED = ("-O1", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops")
"""Enough that a variable is a register, little enough that each access is still the user's own."""


def build_watched(unit: Unit, entries: Sequence[Entry], *, check: bool, count: bool) -> Library:
    """The entries with every access told. Raises CompileError, MissingError."""
    if reason := clang.missing():
        raise MissingError(reason)
    names = tuple(entry.name for entry in entries)
    key = digest("simt", "watched", unit.digest, names, compiling.machine(), _own_digest())

    def make(folder: Path) -> tuple[dict, Iterable[Path]]:
        raw, log, read = compiling.assemble(unit, entries, folder, _TOLD)
        plain = assembly.without(raw, [f"simt_loop_{i}" for i in range(len(entries))])
        watched = check_ir.watch(compiling.optimised(plain, folder, _OPTIMISED), f"{Path(__file__).parents[1]}/")
        object_file = compiling.to_object(sites.numbered(watched.text), folder, fibers=True, as_it_is=True)
        runtime = compiling.runtime_objects(unit.simd_width, watched=True)
        clang.link(object_file, folder / "library.so", system=sys.platform, arch=arch(), others=runtime)
        Tables.of(watched).write(folder / TABLES)
        for path in folder.iterdir():
            if path.name not in ("library.so", TABLES):
                path.unlink()
        return {"log": log, "group_memory": assembly.group_memory(raw, len(entries))}, read

    stored = store.recall_or(key, make)
    return watched_library(stored.folder / "library.so", entries, unit.simd_width, stored, check=check, count=count)


def watched_library(
    path: Path, entries: Sequence[Entry], width: int, stored: store.Stored, *, check: bool, count: bool
) -> Library:
    """The entries in the watched shared library `path`, whose tables lie beside it."""
    host = _WatchedHost(path, Tables.read(path.parent / TABLES), width, check=check, count=count)
    entries = sized(entries, stored.record["group_memory"])
    return Library(entries, host, path=path, cached=stored.cached, log=stored.record["log"])


@cache
def _own_digest() -> str:
    return digest(*(Path(file or "").read_text() for file in (check.__file__, check_ir.__file__, __file__)))


class _WatchedHost:
    """One launch at a time: shadow memory belongs to the library."""

    def __init__(self, path: Path, tables: Tables, width: int, *, check: bool, count: bool) -> None:
        self._library = ctypes.CDLL(str(path))
        self._watch = Watch(self._library, tables)
        self._width = width
        self._check, self._count = check, count
        self._lock = threading.Lock()

    def launch(
        self, index: int, entry: Entry, arguments: Mapping[int, Argument], grid: Grid, group_memory: Mapping[int, int]
    ) -> Report:
        with self._lock:
            arena = Arena(entry, arguments)
            outcome, launch = self._run(index, entry, arena, grid, group_memory, check.POISONS[0])
            suspects = [fault for fault in outcome.faults if fault.kind is FaultKind.UNINITIALISED]
            if suspects and outcome.complete and not self._matters(index, entry, arena, grid, group_memory):
                harmless = set(suspects)
                outcome = replace(outcome, faults=tuple(fault for fault in outcome.faults if fault not in harmless))
            arena.give_back()
        return Report(
            entry.name,
            "fiber",
            launch.total,
            1,
            launch.switches,
            launch.barriers,
            launch.exchanges,
            cpu.log_of(launch),
            faults=tuple(fault for fault in outcome.faults if not fault.kind.remark),
            remarks=tuple(fault for fault in outcome.faults if fault.kind.remark),
            counters=outcome.counters if self._count else None,
        )

    def _matters(self, index: int, entry: Entry, arena: Arena, grid: Grid, group_memory: Mapping[int, int]) -> bool:
        """Whether what group memory holds before it is written reaches a result: two more runs, with other contents."""
        seen = arena.contents()
        for poison in check.POISONS[1:]:
            arena.fill()
            self._run(index, entry, arena, grid, group_memory, poison)
            if arena.contents() != seen:
                return True
        return False

    def _run(
        self, index: int, entry: Entry, arena: Arena, grid: Grid, group_memory: Mapping[int, int], poison: int
    ) -> tuple[Outcome, Any]:
        launch, kept = cpu.fill_launch(entry, arena.addresses, grid, group_memory)
        regions = self._watch.group_memory(entry, group_memory)
        for region in regions:
            launch.group_memory[region.index] = region.begin
        launch.chunk = 1
        address = ctypes.cast(self._library[f"simt_fiber_{index}"], ctypes.c_void_p).value or 0
        self._watch.begin(address, [*arena.regions, *regions], poison, check=self._check, count=self._count)
        done = cpu.pool()(self._library.simt_check_entry, ctypes.byref(launch), 1, entry.name.encode())
        outcome = self._watch.end(entry, grid.threads, grid.group, self._width)
        del kept
        if done:
            raise LaunchError(f"{entry.name}: no address space for the stacks of a worker thread")
        if launch.fault:
            raise LaunchError(f"{entry.name}, group {tuple(launch.fault_group)}: {cpu.FAULTS[launch.fault]}")
        return outcome, launch
