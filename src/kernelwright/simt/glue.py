"""The text that follows a unit: for each entry, functions with C names that a host can find and call."""

from collections.abc import Sequence

from kernelwright.errors import CompileError
from kernelwright.simt.unit import BUILTINS, Entry, Parameter

MAX_INDEX = 31
"""Buffers and group memories are numbered 0 to 31 (kMaxArguments in cpu.hpp and cuda.hpp)."""


def cpu(entries: Sequence[Entry]) -> str:
    """`simt_loop_<i>` runs entry i as a plain loop over threads, `simt_fiber_<i>` with a fiber for each thread."""
    lines = ["", '# 1 "entries" 3']
    for i, entry in enumerate(entries):
        name = f"simt::Entry<{_arguments(entry)}>"
        start = 'extern "C" SIMT_EXPORT void'
        lines += [
            f"{start} simt_loop_{i}(simt::Launch* l, simt::Worker* w) {{ {name}::loop(l, w); }}",
            f"{start} simt_fiber_{i}(simt::Launch* l, simt::Worker* w) {{ simt_run_fibers(l, w, &{name}::thread); }}",
        ]
    return "\n".join(lines) + "\n"


def cuda(entries: Sequence[Entry]) -> str:
    """`simt_entry_<i>` is entry i as a kernel of one argument, the launch; `simt_row_<i>` does four threads at once."""
    lines = ["", '# 1 "entries" 3']
    start = 'extern "C" [[clang::sycl_external]] __attribute__((nvptx_kernel)) void'
    for i, entry in enumerate(entries):
        name = f"simt::Entry<{_arguments(entry)}>"
        lines.append(f"{start} simt_entry_{i}(const simt::Launch l) {{ {name}::thread(l); }}")
        if sees_only_its_place(entry):
            lines.append(f"{start} simt_row_{i}(const simt::Launch l) {{ {name}::row(l); }}")
    return "\n".join(lines) + "\n"


_PLACES = {"thread_in_grid", "grid_size", "grid_origin", "simd_width"}


def sees_only_its_place(entry: Entry) -> bool:
    """Whether an entry that never waits can't tell how the grid is cut into groups."""
    return all(p.kind == "buffer" or (p.kind == "builtin" and p.builtin in _PLACES) for p in entry.parameters)


def _arguments(entry: Entry) -> str:
    return ", ".join([f"&{entry.function}", *(_binding(entry, parameter) for parameter in entry.parameters)])


def _binding(entry: Entry, parameter: Parameter) -> str:
    if parameter.kind == "builtin":
        if parameter.builtin not in BUILTINS:
            raise CompileError(
                f"{entry.name}: parameter {parameter.name} asks for {parameter.builtin!r}, which is unknown"
            )
        return f"simt::bind::{parameter.builtin}"
    if not 0 <= parameter.index <= MAX_INDEX:
        raise CompileError(f"{entry.name}: {parameter.name} has index {parameter.index}; 0 to {MAX_INDEX} are there")
    return f"simt::bind::{parameter.kind}<{parameter.index}>"
