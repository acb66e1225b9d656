"""Arrays that cannot change, so that work on them can be done once."""

import weakref
from typing import Any

import numpy as np


class Constant(np.ndarray):
    """An array whose memory nobody can write to; what is computed from it is an ordinary array."""

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain

    def __reduce__(self) -> Any:
        return constant, (self.view(np.ndarray).copy(),)


_known: "weakref.WeakValueDictionary[int, Constant]" = weakref.WeakValueDictionary()


def constant(array: Any) -> Constant:
    """A private, read-only copy of `array`, for which a function may keep plans.

        operator = kw.constant(operator)
        shuffle_mul(a, b, operator, res)        # the first call sorts, packs and measures; the next ones profit

    A copy, since nothing less is safe: who could still write to the array would make the plans wrong, and comparing
    its bytes would cost more than the call. Plans live as long as the array that this returns.
    """
    if isinstance(array, Constant) and is_constant(array):
        return array
    plain = np.ascontiguousarray(array)
    if plain.dtype.hasobject:
        raise TypeError("kw.constant takes an array of numbers, not of Python objects")
    # The memory belongs to a bytes object, so that NumPy itself refuses to make the array writable.
    held = np.frombuffer(plain.tobytes(), plain.dtype) if plain.size else np.empty(0, plain.dtype)
    made = held.reshape(np.shape(array)).view(Constant)
    made.flags.writeable = False
    _known[id(made)] = made
    return made


def is_constant(array: Any) -> bool:
    """Whether it is what `constant` returned, and not a view or a copy of it."""
    return type(array) is Constant and _known.get(id(array)) is array
