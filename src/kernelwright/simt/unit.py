"""What a front end hands over: translated C++ and the entries in it, without a word of the language it came from."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kernelwright.records import digest


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry, in the order of the function's own list.

    `cpp_type` is its C++ type as written ("const float *", "uint3"), for messages and tables alone; the glue takes the
    true type from the function. `index` counts buffers and group memories apart. `builtin` is one of BUILTINS.
    `element_bytes` is the size of what a pointer or reference points to, 0 where it is unknown.
    """

    name: str
    kind: Literal["buffer", "group_memory", "builtin"]
    index: int
    cpp_type: str
    builtin: str = ""
    writable: bool = False
    element_bytes: int = 0


@dataclass(frozen=True)
class Entry:
    """A kernel that can be launched. `function` is a C++ expression that names it, as "softmax<float>".

    `group_memory_bytes` counts its static group variables: known once it was compiled or measured(). `max_threads` is
    its limit on a group.
    """

    name: str
    function: str
    parameters: tuple[Parameter, ...]
    group_memory_bytes: int = 0
    max_threads: int | None = None


@dataclass(frozen=True)
class Unit:
    """A translation unit in C++ on top of runtime/simt.hpp, its #line markers kept, without any entry glue.

    `include_dirs` hold what the text includes; `flags` are the compiler's (-D, -std); `simd_width` is 32 or 64.
    """

    text: str
    entries: tuple[Entry, ...]
    include_dirs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    simd_width: int = 32

    @cached_property
    def digest(self) -> str:
        """Names the content; the files it includes are compared by content where a build is recalled."""
        return digest("unit", self.text, self.entries, self.include_dirs, self.flags, self.simd_width)


BUILTINS = (
    "thread_in_grid",
    "thread_in_group",
    "group_in_grid",
    "group_size",
    "dispatched_group_size",
    "groups_in_grid",
    "grid_size",
    "grid_origin",
    "thread_index",
    "lane",
    "simd_index",
    "simd_count",
    "dispatched_simd_count",
    "simd_width",
    "quad_lane",
    "quad_index",
    "quad_count",
)
"""Values an entry can ask for by parameter; runtime/simt.hpp says what each is. The first eight have three parts."""
