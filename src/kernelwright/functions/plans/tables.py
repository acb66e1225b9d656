"""What a plan prepared once, as arrays that its program reads."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kernelwright.loops import (
    Argument,
    ArrayType,
    Buffer,
    Cast,
    Constant,
    Expression,
    Load,
    Program,
    ScalarType,
)

ZERO, ONE = Constant(0, ScalarType.INT64), Constant(1, ScalarType.INT64)


class Tables:
    """The arrays in order, and how a program gets at them."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._buffers: list[Buffer] = []
        self._written: set[str] = set()

    def add(self, array: np.ndarray) -> Buffer:
        """A contiguous array of one or two axes as a buffer that a program may load from."""
        name = f"table{len(self.arrays)}_"
        self.arrays.append(np.ascontiguousarray(array))
        shape = tuple(f"{name}n{axis}" for axis in range(array.ndim))
        strides: tuple[int | str, ...] = (1,) if array.ndim == 1 else (f"{name}s0", 1)
        self._buffers.append(Buffer(name, ScalarType(array.dtype.name), shape, strides))
        return self._buffers[-1]

    def scratch(self, array: np.ndarray) -> Buffer:
        """Memory of one axis that the program writes, of the array's size."""
        buffer = self.add(array)
        self._written.add(buffer.name)
        return buffer

    def declared(self, program: Program) -> Program:
        """The program with the tables as further arguments, after its own."""
        added = tuple(
            Argument(buffer.name, ArrayType(buffer.type, len(buffer.shape)), buffer.name in self._written, read=True)
            for buffer in self._buffers
        )
        return replace(
            program,
            arguments=(*program.arguments, *added),
            buffers=(*program.buffers, *self._buffers),
        )


def packed(column: np.ndarray) -> np.ndarray:
    """Whole numbers in the fewest bytes that hold all of them; other columns as they are."""
    if column.dtype.kind not in "iu" or not column.size:
        return column
    low, high = int(column.min()), int(column.max())
    for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32"):
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max and np.dtype(name).itemsize < column.dtype.itemsize:
            return column.astype(name)
    return column


def distinct(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The first row of each distinct tuple of the columns, and for each row which tuple it is."""
    mixed, room = np.zeros(columns[0].shape, np.int64), 1
    for column in columns:
        part, count = _numbered(column)
        if room * count >= 1 << 62:  # only after renumbering can there be few
            _, mixed = np.unique(mixed, return_inverse=True)
            mixed, room = mixed.reshape(-1), int(mixed.max()) + 1
        mixed, room = mixed * count + part, room * count
    if room <= max(_FEW, len(mixed)):  # without sorting: rows are written backwards, so that the first one stays
        first = np.full(room, -1, np.int64)
        first[mixed[::-1]] = np.arange(len(mixed) - 1, -1, -1)
        there = first >= 0
        return first[there], (np.cumsum(there) - 1)[mixed]
    _, firsts, inverse = np.unique(mixed, return_index=True, return_inverse=True)
    return firsts, inverse.reshape(-1)


_FEW = 1 << 20


def _numbered(column: np.ndarray) -> tuple[np.ndarray, int]:
    """The column as whole numbers from 0 to below the count, equal where it is equal."""
    if column.dtype.kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low < _FEW:
            wide = np.uint64 if column.dtype.kind == "u" else np.int64
            return (column.astype(wide) - wide(low)).astype(np.int64), high - low + 1
    values, inverse = np.unique(column, return_inverse=True)
    return inverse.reshape(-1), len(values)


def element(buffer: Buffer, index: tuple[Expression, ...], type: ScalarType) -> Expression:
    """An element of a packed table in the type its column had."""
    load = Load(buffer, index)
    return load if load.type is type else Cast(type, load)
