"""Signatures as Numba writes them: "void(float64[:], int32[:, ::1], float64)"."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kernelwright.errors import UsageError
from kernelwright.loops import ArrayType, ScalarType

Type = ArrayType | ScalarType
Types = tuple[Type, ...]

_SHORT = {
    "b1": "bool",
    "boolean": "bool",
    "bool_": "bool",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "float_": "float32",
    "double": "float64",
    "intp": "int64",
    "uintp": "uint64",
    "intc": "int32",
    **{
        f"{letter}{size}": f"{word}{8 * size}"
        for letter, word in (("i", "int"), ("u", "uint"))
        for size in (1, 2, 4, 8)
    },
    "int_": "int64",
    "uint": "uint64",
}
_TYPE = re.compile(r"([A-Za-z_]\w*)\s*(?:\[([^\]]*)\])?")


@dataclass(frozen=True)
class Signature:
    """The types a function is compiled for ahead of its first call, and what it returns where that was said."""

    arguments: Types
    result: ScalarType | None = None

    def __str__(self) -> str:
        return f"({', '.join(words(kind) for kind in self.arguments)})"


def words(kind: Type) -> str:
    """A type as a signature writes it."""
    if isinstance(kind, ArrayType):
        axes = [":"] * kind.ndim
        if kind.contiguous and axes:
            axes[-1] = "::1"
        return f"{kind.dtype.value}[{', '.join(axes)}]"
    return kind.value


def read_signatures(given: Any) -> tuple[Signature, ...]:
    """Signatures from a string, from a type object whose text is one, or from a list of either. Raises UsageError."""
    if given is None:
        return ()
    many = given if isinstance(given, list | tuple) and not _is_types(given) else [given]
    return tuple(_signature(item) for item in many)


def _is_types(given: Any) -> bool:
    """Whether a tuple is one signature, as (float64[:], int64), and no list of them."""
    return isinstance(given, tuple) and all("(" not in str(item) for item in given)


def _signature(given: Any) -> Signature:
    text = f"({', '.join(map(str, given))})" if isinstance(given, tuple) else str(given).strip()
    # Numba's own objects print as "(Array(float64, 1, 'C', False, aligned=True), int64) -> none".
    text = re.sub(r"[Aa]rray\(\s*(\w+),\s*(\d)d?,\s*'?([ACF])'?[^)]*\)", _from_object, text)
    head, arrow, tail = text.partition("->")
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)?\s*\((.*)\)\s*", head, re.DOTALL)
    if match is None:
        raise UsageError(f'{text!r} is no signature; write one as "void(float64[:], int32[:, :], float64)"')
    returned = tail.strip() if arrow else match[1] or "void"
    result = None if returned in ("void", "none") else _scalar(returned, text)
    return Signature(tuple(_type(part, text) for part in _split(match[2])), result)


def _from_object(match: re.Match[str]) -> str:
    axes = [":"] * int(match[2])
    if match[3] == "C" and axes:
        axes[-1] = "::1"
    return f"{match[1]}[{','.join(axes)}]"


def _split(text: str) -> Iterable[str]:
    parts = re.split(r",(?![^\[]*\])", text)
    return [part.strip() for part in parts if part.strip()]


def _scalar(name: str, text: str) -> ScalarType:
    try:
        return ScalarType(_SHORT.get(name, name))
    except ValueError:
        reason = "complex numbers are not supported" if name.startswith(("complex", "c")) else "no such type is known"
        known = ", ".join(kind.value for kind in ScalarType)
        raise UsageError(f"{name!r} in signature {text!r}: {reason}; known: {known}") from None


def _type(part: str, text: str) -> Type:
    match = _TYPE.fullmatch(part)
    if match is None:
        raise UsageError(f"{part!r} in signature {text!r} is no type; write float64, float64[:] or float64[:, ::1]")
    scalar = _scalar(match[1], text)
    if match[2] is None:
        return scalar
    axes = [axis.strip() for axis in match[2].split(",")]
    if not all(axis in (":", "::1", "::") for axis in axes) or "::1" in axes[:-1]:
        raise UsageError(f"{part!r} in signature {text!r}: axes are ':', the last may be '::1'")
    # An overload for ":" is made contiguous first; other strides get their own when they are met.
    return ArrayType(scalar, len(axes), True)
