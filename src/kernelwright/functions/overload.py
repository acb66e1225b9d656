"""A function compiled for the types of its arguments."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kernelwright import loops
from kernelwright.functions.arguments import Given, read_result, scalar_cell
from kernelwright.functions.chain import Link
from kernelwright.functions.failures import KwError, failing
from kernelwright.functions.options import Options
from kernelwright.functions.signatures import Types
from kernelwright.targets import compile
from kernelwright.targets.entry.program import Entry, Slot, written
from kernelwright.targets.languages.program import LoadedProgram


class Overload:
    """One program in this process. `links`: its entries, the one that takes the fewest calls first."""

    def __init__(self, function: Callable[..., Any], types: Types, options: Options, *, exact: bool) -> None:
        self.types, self.options = types, options
        self.program = loops.parse(function, types)
        self.fail = failing(self.program)
        self.entry = entry_of(self.program, exact=exact)
        self.serial = load(self.program, self.entry, options.boundscheck, parallel=False)
        self.links = [Link(self.serial, self.fail)]
        self.parallel: LoadedProgram | None = None
        if options.parallel and not (options.deterministic and _adds_up(self.program)):
            # Threads take parts of a loop in any order, which is right only where no array reaches into another.
            entry = replace(self.entry, apart=overlaps(self.program))
            self.parallel = load(self.program, entry, options.boundscheck, parallel=True)
            self.links.insert(0, Link(self.parallel, self.fail))

    def launch(self, arguments: Sequence[Given]) -> Any:
        """Runs it by ctypes: for what the entries are not sure of."""
        self.check_writable(arguments)
        return self.run(self.parallel if self.parallel and self.apart(arguments) else self.serial, arguments)

    def check_writable(self, arguments: Sequence[Given]) -> None:
        """Raises TypeError where an array is written to that cannot be."""
        for argument, declared in zip(arguments, self.program.arguments, strict=True):
            if declared.written and argument.refusal:
                raise TypeError(f"{self.program.name} writes to {declared.name!r}, but {argument.refusal}")

    def run(self, loaded: LoadedProgram, arguments: Sequence[Given], tables: Sequence[Any] = ()) -> Any:
        """One call of a program by ctypes, with the words of tables after those of the arguments."""
        words = [item.value for item in arguments if isinstance(item.type, loops.ArrayType)]
        scalars = [item for item in arguments if isinstance(item.type, loops.ScalarType)]
        call = Call(loaded, self.program, [*words, *tables], scalars)
        if call():
            call.fail(self.fail)
        return call.result()

    def apart(self, arguments: Sequence[Given]) -> bool:
        """Whether no array that is written reaches into another."""
        extents = {i: _extent(item) for i, item in enumerate(arguments) if isinstance(item.type, loops.ArrayType)}
        return all(extents[x][1] <= extents[y][0] or extents[y][1] <= extents[x][0] for x, y in overlaps(self.program))


def _adds_up(program: loops.Program) -> bool:
    """Whether threads would add up parts: the order of floating additions would depend on their number."""
    kinds = (loops.Kind.REDUCTION, loops.Kind.SCATTER)
    return any(plan.kind in kinds for plan in loops.analyse(program).loops)


class Call:
    """A program with its arguments in place, by ctypes: calling it answers 0, or 1 for a failure."""

    def __init__(
        self, loaded: LoadedProgram, program: loops.Program, words: Sequence[Any], scalars: Sequence[Given]
    ) -> None:
        cells = [scalar_cell(item.type, item.value) for item in scalars if isinstance(item.type, loops.ScalarType)]
        self._types = program.result
        self._results = (ctypes.c_int64 * max(1, len(program.result)))()
        self._error = KwError()
        self._kept = (words, cells, scalars)
        run, pointers = loaded.function, (addresses(words), addresses(cells), self._results, ctypes.byref(self._error))
        self._run, self._pointers = run, pointers

    def __call__(self) -> int:
        return self._run(*self._pointers)

    def fail(self, raising: Callable[[int], Any]) -> None:
        """Raises what the failure was."""
        raising(ctypes.addressof(self._error))

    def result(self) -> Any:
        """What the program returned: nothing, a number, or a tuple of numbers."""
        cells = zip(self._types, self._results, strict=False)
        values = tuple(read_result(kind, ctypes.c_int64(cell)) for kind, cell in cells)
        return values if len(values) > 1 else values[0] if values else None


def addresses(cells: Sequence[Any]) -> Any:
    """The addresses of ctypes objects, as an array that a program can read."""
    return (ctypes.c_void_p * max(1, len(cells)))(*map(ctypes.addressof, cells))


def entry_of(program: loops.Program, *, exact: bool) -> Entry:
    """What the entry of `program` checks."""
    slots, arrays, scalars = [], [], []
    for index, argument in enumerate(program.arguments):
        kind = argument.type
        if isinstance(kind, loops.ArrayType):
            arrays.append(("argument", index))
            slots.append(
                Slot("array", kind.dtype.value, kind.ndim, contiguous=kind.contiguous, written=argument.written)
            )
        else:
            scalars.append(index)
            slots.append(Slot("scalar", kind.value, exact=exact))
    results = tuple(kind.value for kind in program.result)
    return Entry(program.symbol, tuple(slots), tuple(arrays), tuple(scalars), results)


def overlaps(program: loops.Program) -> tuple[tuple[int, int], ...]:
    """The pairs of arrays of which one is written: they must lie apart for a program that changes the order."""
    arrays = [i for i, argument in enumerate(program.arguments) if isinstance(argument.type, loops.ArrayType)]
    written = {i for i in arrays if program.arguments[i].written}
    return tuple((x, y) for x in arrays for y in arrays if x < y and (x in written or y in written))


def load(program: loops.Program, entry: Entry, boundscheck: bool, *, parallel: bool) -> LoadedProgram:
    """Prints, compiles (or finds) and loads. Raises CompileError or MissingError."""
    text = loops.print_program_cpp(program, boundscheck=boundscheck, parallel=parallel)
    return compile(text, language="program", entries=written(entry))[entry.symbol]


def _extent(argument: Given) -> tuple[int, int]:
    """The address of an array's first byte, and of the one after its last."""
    kind = argument.type
    assert isinstance(kind, loops.ArrayType)
    data, *rest = argument.value
    shape, strides = rest[: kind.ndim], rest[kind.ndim :]
    if 0 in shape:
        return 0, 0
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    low, high = sum(item for item in reach if item < 0), sum(item for item in reach if item > 0)
    return data + kind.dtype.bytes * low, data + kind.dtype.bytes * (high + 1)
