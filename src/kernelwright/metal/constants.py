"""Function constants: values given when a kernel is compiled."""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kernelwright.errors import UsageError

Value: TypeAlias = bool | int | float | Sequence[bool] | Sequence[int] | Sequence[float]
Constants: TypeAlias = Mapping[int, Value] | Mapping[str, Value] | Mapping[int | str, Value]
"""Values by the number in [[function_constant(n)]] or by name; a vector is a sequence."""


def literal(value: Value, type_text: str) -> str:
    """`value` as C++ of the type. Raises UsageError for what no constant can hold."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{type_text}({', '.join(_scalar(part) for part in value)})"
    return f"({type_text})({_scalar(value)})"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}" if -(2**31) < value < 2**31 else f"{value}L" if value < 2**63 else f"{value}UL"
    if isinstance(value, float):
        if math.isnan(value):
            return '__builtin_nanf("")'
        if math.isinf(value):
            return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
        return f"{float(struct.unpack('f', struct.pack('f', value))[0]).hex()}f"
    raise UsageError(f"a function constant is a bool, an int, a float or a sequence of one of them, not {value!r}")
