"""The entry of a loop program: what a call must hold, and the C++ that checks it and runs the program.

A program is a function of C linkage

    int32 NAME(const int64* const* arrays, const void* const* scalars, void* results, KwError* error)

whose arrays are words (data, shape..., strides... in elements). It answers 1 with `error` filled where it failed; what
KwError is its text says.
The entry is bound to a bytearray of 8-byte words: the callable that takes what does not fit, the callable that raises
a failure, and then in order the addresses of bound arrays, the addresses of tables' words, and the guards' limits.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernelwright.targets.entry.generate import DTYPES, ENTRY

SCALARS = {
    "float64": "double",
    "float32": "float",
    "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}
"""The prelude's names of scalar types."""


@dataclass(frozen=True)
class Slot:
    """One argument of the call."""

    kind: Literal["array", "scalar", "bound"]
    """A bound argument must be one array that cannot change, the one that a plan was made for."""
    dtype: str
    dimensions: int = 0
    contiguous: bool = True
    written: bool = False
    exact: bool = True
    """For a scalar: whether only Python's own type for `dtype` fits, or an int for a float too."""


@dataclass(frozen=True)
class Entry:
    """What the entry of one program checks and passes on."""

    symbol: str
    slots: tuple[Slot, ...]
    arrays: tuple[tuple[Literal["argument", "table"], int], ...]
    """Where each array of the program comes from, in its own order."""
    scalars: tuple[int, ...]
    """The arguments that are the program's scalars, in its order."""
    results: tuple[str, ...]
    tables: int = 0
    guards: tuple[tuple[int, int], ...] = ()
    """(argument, axis) pairs that must be larger than their limits: what stands for bounds checks in a plan."""
    apart: tuple[tuple[int, int], ...] = ()
    """Pairs of arguments whose memory must not overlap."""

    @property
    def words(self) -> int:
        """Length of what the entry is bound to, in words."""
        return 2 + sum(slot.kind == "bound" for slot in self.slots) + self.tables + len(self.guards)


def written(*entries: Entry) -> str:
    """Entries as text."""
    return json.dumps([asdict(entry) for entry in entries])


def read(text: str) -> tuple[Entry, ...]:
    """The entries that `written` wrote."""
    return tuple(map(_entry, json.loads(text)))


def _entry(fields: dict[str, Any]) -> Entry:
    fields["slots"] = tuple(Slot(**slot) for slot in fields["slots"])
    for name in ("arrays", "guards", "apart"):
        fields[name] = tuple(tuple(pair) for pair in fields[name])
    return Entry(**{**fields, "scalars": tuple(fields["scalars"]), "results": tuple(fields["results"])})


def program_entry(entry: Entry) -> str:
    """The C++ text of the entry, to stand after the program's own."""
    bound = [index for index, slot in enumerate(entry.slots) if slot.kind == "bound"]
    first_table = 2 + len(bound)
    first_guard = first_table + entry.tables
    checks = [f"count == {len(entry.slots)}", "!names"]
    locals_: list[str] = []
    for index, slot in enumerate(entry.slots):
        if slot.kind == "bound":
            checks.append(f"is_bound(arguments[{index}], (const Bound*)binding[{2 + bound.index(index)}])")
        elif slot.kind == "array":
            locals_.append(f"    int64 a{index}[{1 + 2 * slot.dimensions}];")
            flags = ", ".join(str(flag).lower() for flag in (slot.written, slot.contiguous))
            checks.append(
                f"as_array<Dtype::{DTYPES[slot.dtype]}, {slot.dimensions}, {flags}>(arguments[{index}], a{index}, seen)"
            )
        else:
            locals_.append(f"    {SCALARS[slot.dtype]} a{index};")
            checks += _scalar_checks(index, slot)
    checks += [
        f"a{argument}[{1 + axis}] > binding[{first_guard + place}]"
        for place, (argument, axis) in enumerate(entry.guards)
    ]
    checks += [f"apart({_extent(entry, x)}, {_extent(entry, y)})" for x, y in entry.apart]
    checks.append("!watched(seen)")
    arrays = ", ".join(
        f"a{index}" if source == "argument" else f"(const int64*)binding[{first_table + index}]"
        for source, index in entry.arrays
    )
    scalars = ", ".join(f"&a{index}" for index in entry.scalars)
    return "\n".join(
        [
            "namespace kernelwright {",
            'extern "C" __attribute__((visibility("default")))',
            f"void* {ENTRY}{entry.symbol}(void* self, Object* const* arguments, int64 count, void* names) {{",
            "    const int64* binding = (const int64*)kernelwright_runtime->bytes_of(self);",
            "    Seen seen;",
            *locals_,
            f"    if ({' && '.join(checks)}) {{",
            f"        const int64* const arrays[] = {{{arrays or 'nullptr'}}};",
            f"        const void* const scalars[] = {{{scalars or 'nullptr'}}};",
            f"        int64 results[{max(1, len(entry.results))}];",
            "        KwError error = {};",
            "        void* state = kernelwright_runtime->save_thread();",
            f"        int32 wrong = ::{entry.symbol}(arrays, scalars, results, &error);",
            "        kernelwright_runtime->restore_thread(state);",
            "        if (wrong) return failed((void*)binding[1], &error);",
            *_results(entry.results),
            "    }",
            "    return kernelwright_runtime->call((void*)binding[0], (void* const*)arguments, uint64(count), names);",
            "}",
            "}",
        ]
    )


def _scalar_checks(index: int, slot: Slot) -> list[str]:
    argument = f"arguments[{index}]"
    if slot.dtype not in ("int64", "int32", "float64", "float32", "bool"):
        return ["false"]  # no Python type is such a number: NumPy's scalars go the slow way
    exact = []
    if slot.exact and slot.dtype != "bool":
        wanted = {"int64": "is_int", "float64": "is_float"}.get(slot.dtype)
        exact = [f"{wanted}({argument})"] if wanted else ["false"]
    return [*exact, f"as_scalar({argument}, a{index})"]


def _extent(entry: Entry, index: int) -> str:
    slot = entry.slots[index]
    return f"extent(a{index}, {slot.dimensions}, item_bytes[Dtype::{DTYPES[slot.dtype]}])"


def _results(results: tuple[str, ...]) -> list[str]:
    if not results:
        return ["        return none();"]
    values = [f"result((const char*)(results + {i}), {SCALARS[name]}())" for i, name in enumerate(results)]
    if len(values) == 1:
        return [f"        return {values[0]};"]
    lines = [f"        void* pack = kernelwright_runtime->new_tuple({len(values)});", "        if (!pack) return pack;"]
    for i, value in enumerate(values):
        lines += [
            f"        void* item{i} = {value};",
            f"        if (!item{i} || kernelwright_runtime->set_item(pack, {i}, item{i})) {{",
            "            kernelwright_runtime->drop_reference(pack);",
            "            return nullptr;",
            "        }",
        ]
    return [*lines, "        return pack;"]
