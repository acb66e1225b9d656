"""A Program as one C++ translation unit, to stand after the prelude of `kernelwright.compile`.

    struct KwError { int32 kind, line, column, argument, axis, set; int64 index, size; };
    extern "C" int32 NAME(const int64* const* arrays, const void* const* scalars, void* results, KwError* error);

Of each array argument one array of words: data, shape..., strides... (in elements). Each scalar argument is a pointer
to a value of its own type; each scalar returned takes 8 bytes of `results`. The result is 0, or 1 with `error` filled
in, whose `kind` is a `Failure`.
"""

from functools import cache
from pathlib import Path

from kernelwright.loops.commands_cpp import ProgramPrinter
from kernelwright.loops.parallel_cpp import ParallelPrinter
from kernelwright.loops.program import Program


@cache
def program_template() -> str:
    """What all programs of a translation unit share."""
    return (Path(__file__).parent / "templates" / "python.hpp").read_text()


def print_program_cpp(program: Program, *, boundscheck: bool = True, parallel: bool = False) -> str:
    """The program as C++. Without `boundscheck` an index outside its axis is undefined, one from the end still right.

    With `parallel` loops run on torch's threads where `analyse` found them free to. What they add up is added in
    another order then, always the same one for one number of threads.
    """
    return program_template() + "\n" + print_function(program, boundscheck=boundscheck, parallel=parallel)


def print_function(program: Program, *, boundscheck: bool = True, parallel: bool = False) -> str:
    """The program alone, to stand after `program_template()`: several fit into one translation unit."""
    return (ParallelPrinter if parallel else ProgramPrinter)(program, boundscheck).text()
