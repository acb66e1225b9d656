"""What a program answers when it had to stop, as the exception that Python would have raised."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from kernelwright.loops import Failure, Program

_WRITTEN = "what was written before stays written"


class KwError(ctypes.Structure):
    """struct KwError of runtime/program.hpp."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("argument", ctypes.c_int32),
        ("axis", ctypes.c_int32),
        ("_", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


def failing(program: Program) -> Callable[[int], NoReturn]:
    """fail(address of a KwError), which raises for `program`."""

    def fail(address: int) -> NoReturn:
        raise _exception(KwError.from_address(address), program)

    return fail


def _exception(error: KwError, program: Program) -> Exception:
    place = f"{program.name}, {Path(program.file).name}:{error.line}:{error.column}"
    array = f"{program.array_name(error.argument)!r}" if error.argument >= 0 else "a value"
    index, size = error.index, error.size
    match Failure(error.kind):
        case Failure.INDEX:
            sentence = f"index {index} is out of bounds for axis {error.axis} of {array}, whose size is {size}"
            return IndexError(f"{place}: {sentence}; {_WRITTEN}")
        case Failure.ZERO_DIVISION:
            return ZeroDivisionError(f"{place}: an integer is divided by zero; {_WRITTEN}")
        case Failure.SIZE:
            return ValueError(f"{place}: {array} has {index} elements here, and {size} are needed; {_WRITTEN}")
        case Failure.STEP:
            return ValueError(f"{place}: the step of range() is zero; {_WRITTEN}")
