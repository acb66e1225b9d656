"""A program over a batch: for each item the words of its own parts of the arrays, and a call.

Each array of the batch has one more axis in front, whose stride may be 0. Numbers are arrays of that one axis.
"""

from collections.abc import Sequence
from typing import Literal

from kernelwright.loops import ArrayType, Program, ScalarType
from kernelwright.targets.entry.program import SCALARS, Entry, Slot

_GRAIN = 1024
"""Numbers worth a thread of their own; of arrays a single item may be."""


def batch_text(program: Program, *, parallel: bool) -> str:
    """C++ to stand after the program's own text: a program of the same convention over arrays with a batch axis."""
    arguments = [argument.type for argument in program.arguments]
    results = list(program.result)
    arrays = [index for index, kind in enumerate(arguments) if isinstance(kind, ArrayType)]
    lines = [
        f'extern "C" int32 {program.symbol}_batch(',
        "    const int64* const* arrays, const void* const* scalars, void* results, KwError* error) {",
        "    (void)scalars, (void)results;",
        f"    const int64 count = arrays[{len(arguments) + len(results)}][1];",
        "    int32 wrong = 0;",
        "    auto items = [&](int64 begin, int64 end) {",
        "        KwError own = {};",
    ]
    for place, index in enumerate(arrays):
        kind = arguments[index]
        assert isinstance(kind, ArrayType)
        lines.append(f"        int64 words{place}[{1 + 2 * kind.ndim}];")
        for axis in range(kind.ndim):
            lines.append(f"        words{place}[{1 + axis}] = arrays[{index}][{2 + axis}];")
            stride = f"arrays[{index}][{3 + kind.ndim + axis}]"
            lines.append(f"        words{place}[{1 + kind.ndim + axis}] = {stride};")
    passed = ", ".join(f"words{place}" for place in range(len(arrays))) or "nullptr"
    lines += [f"        const int64* const parts[] = {{{passed}}};", "        for (int64 b = begin; b < end; b++) {"]
    for place, index in enumerate(arrays):
        lines.append(f"            words{place}[0] = {_at(index, arguments[index])};")
    numbers = ", ".join(
        f"(const void*)({_at(index, kind)})" for index, kind in enumerate(arguments) if isinstance(kind, ScalarType)
    )
    lines += [
        f"            const void* const numbers[] = {{{numbers or 'nullptr'}}};",
        f"            int64 answers[{max(1, len(results))}];",
        f"            if ({program.symbol}(parts, numbers, answers, &own)) {{",
        "                if (!__atomic_exchange_n(&wrong, 1, __ATOMIC_RELAXED)) *error = own;",
        "                return;",
        "            }",
    ]
    for place, kind in enumerate(results):
        name, out = SCALARS[kind.value], len(arguments) + place
        lines.append(f"            *({name}*)({_at(out, kind)}) = *({name}*)(answers + {place});")
    grain = 1 if arrays else _GRAIN
    run = f"parallel_for(count, {grain}, items);" if parallel else "items(0, count);"
    return "\n".join([*lines, "        }", "    };", f"    {run}", "    return wrong;", "}"]) + "\n"


def _at(index: int, kind: ArrayType | ScalarType) -> str:
    """The address of an item's part of an array."""
    dimensions, scalar = (kind.ndim, kind.dtype) if isinstance(kind, ArrayType) else (0, kind)
    return f"arrays[{index}][0] + b * arrays[{index}][{2 + dimensions}] * {scalar.bytes}"


def batch_entry(program: Program) -> Entry:
    """How the batch program is called: with the arguments, the results, and an array as long as the batch."""
    kinds: Sequence[ArrayType | ScalarType] = [*(item.type for item in program.arguments), *program.result]
    slots = tuple(
        Slot("array", kind.dtype.value, kind.ndim + 1, contiguous=False)
        if isinstance(kind, ArrayType)
        else Slot("array", kind.value, 1, contiguous=False)
        for kind in kinds
    )
    slots = (*slots, Slot("array", "bool", 1, contiguous=False))
    arrays: list[tuple[Literal["argument", "table"], int]] = [("argument", index) for index in range(len(slots))]
    return Entry(f"{program.symbol}_batch", slots, tuple(arrays), (), ())
