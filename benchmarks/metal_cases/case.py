"""One kernel run on data whose result is known."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """`arguments` are what buffers 0, 1, ... hold; None leaves one free. `expected` maps buffers to float64 results.

    Right is |got - expected| <= tolerance * (largest |expected| of the row). `groups` counts whole threadgroups; give
    `threads` instead where a kernel counts them.
    """

    family: str
    file: str
    kernel: str
    arguments: Sequence[Any]
    expected: Mapping[int, np.ndarray]
    group_size: tuple[int, ...]
    groups: tuple[int, ...] | None = None
    threads: tuple[int, ...] | None = None
    tolerance: float = 1e-5
    constants: Mapping[int, Any] = field(default_factory=dict)
    group_memory: Mapping[int, int] = field(default_factory=dict)

    @property
    def grid(self) -> tuple[int, ...]:
        """Threads of the whole grid."""
        if self.threads is not None:
            return self.threads
        assert self.groups is not None
        return tuple(a * b for a, b in zip(self.groups, self.group_size, strict=True))


def packed(layout: str, *values: Any) -> np.ndarray:
    """A C struct as bytes: `layout` as in the struct module, with the compiler's own alignment."""
    data = struct.pack(f"@{layout}0q", *values)
    return np.frombuffer(data, np.uint8).copy()


def blank(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """An output that nobody has written: NaN, or the largest negative integer."""
    kind = np.dtype(dtype)
    return np.full(shape, np.nan if kind.kind == "f" else np.iinfo(kind.name).max, kind)


def i32(*values: int) -> np.ndarray:
    """Numbers as a kernel reads them from `constant int*`."""
    return np.array(values, np.int32)


def u32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)
