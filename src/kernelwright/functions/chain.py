"""A function's entries, one behind the other: each takes the calls it is sure of and hands the rest on.

First come the plans made for arrays that cannot change, then overloads by type, at the end the slow way, in Python.
An entry is bound to words that name the next one, so that a chain changes while other threads run through it: a word
is written while the GIL is held, and nothing that a call may still be in is ever freed.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.targets.languages.program import LoadedProgram

_NEXT, _FAIL, _FIRST = 0, 1, 2


class _Bound(ctypes.Structure):
    """struct Bound of runtime/program.hpp."""

    _fields_ = (
        ("object", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("dimensions", ctypes.c_int64),
        ("shape", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    )


class Link:
    """One entry of a chain."""

    def __init__(
        self,
        program: LoadedProgram,
        fail: Callable[[int], Any],
        *,
        constants: Sequence[Any] = (),
        tables: Sequence[Any] = (),
        limits: Sequence[int] = (),
    ) -> None:
        words = bytearray(8 * program.entry.words)
        self._words = (ctypes.c_int64 * program.entry.words).from_buffer(words)
        self._bound = [_bound(array) for array in constants]
        # A constant is not kept alive: who calls with it has it. Its words are those of the first tables.
        self._tables = [*map(array_words, constants), *map(array_words, tables)]
        self._arrays = list(tables)
        self._kept = (program, fail, [array.dtype for array in constants])
        self._words[_FAIL] = id(fail)
        addresses = [ctypes.addressof(item) for item in (*self._bound, *self._tables)]
        self._words[_FIRST : program.entry.words] = [*addresses, *limits]
        self.call = program.bound(words)
        self._next: list[Any] = []

    def set_next(self, following: Any) -> None:
        """Makes `following` the one that takes what does not fit here."""
        self._next.append(following)  # a call in another thread may be on its way to the last one
        self._words[_NEXT] = id(following)

    def release(self) -> None:
        """Lets nothing fit any more and drops the tables: to be called when a bound array is gone."""
        for bound in self._bound:
            bound.object = None
        self._arrays.clear()


def _bound(array: Any) -> _Bound:
    bound = _Bound(id(array), array.ctypes.data, id(array.dtype), array.ndim)
    bound.shape[: array.ndim], bound.strides[: array.ndim] = array.shape, array.strides
    return bound


def array_words(array: Any) -> Any:
    """The words of a contiguous NumPy array: data, shape, strides in elements."""
    strides = [stride // array.itemsize for stride in array.strides]
    return (ctypes.c_int64 * (1 + 2 * array.ndim))(array.ctypes.data, *array.shape, *strides)
