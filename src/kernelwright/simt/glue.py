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
    """`simt_entry_<i>` is entry i as a kernel of one argument, the launch."""
    lines = ["", '# 1 "entries" 3']
    start = 'extern "C" [[clang::sycl_external]] __attribute__((nvptx_kernel)) void'
    for i, entry in enumerate(entries):
        lines.append(f"{start} simt_entry_{i}(const simt::Launch l) {{ simt::Entry<{_arguments(entry)}>::thread(l); }}")
    return "\n".join(lines) + "\n"


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
