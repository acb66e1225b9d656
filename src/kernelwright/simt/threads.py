"""What each thread of a block computes of its own number: PTX, evaluated for all threads at once."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelwright.simt import ptx

MOST = 1024
"""The threads of a block, in one dimension."""
ALIGNMENT = 16
"""What a place in shared memory that the program does not know is a multiple of."""

_SHARED = re.compile(r"\.shared \.align (\d+) \.b8 (\w+)\[")
_TYPE = re.compile(r"[bus](8|16|32|64)$")
_WIDE = re.compile(r"[bus](32|64)$")
_GROUP_MEMORY = range(256, 384, 4)
"""Where a launch's offsets of group memory lie, each a multiple of 256 (struct Launch of runtime/cuda.hpp)."""
_DEEPEST = 100
_Parts = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Value:
    """A register in each thread. With `somewhere`, an unknown multiple of `ALIGNMENT` is added, the same in all."""

    parts: _Parts
    somewhere: bool = False


def aligned_places(text: str) -> frozenset[str]:
    """What PTX declares in shared memory at a multiple of `ALIGNMENT`."""
    return frozenset(name for alignment, name in _SHARED.findall(text) if int(alignment) % ALIGNMENT == 0)


class Threads:
    """The registers of an entry that are written once and hang on nothing but the thread's number."""

    def __init__(self, lines: Sequence[str], places: frozenset[str]) -> None:
        """`lines` is the entry, `places` are those of `aligned_places`."""
        self._makers: dict[str, ptx.Instruction | None] = {}
        self._known: dict[str, Value | None] = {}
        self._depth = 0
        for found in filter(None, map(ptx.instruction, lines)):
            for name in found.writes:
                self._makers[name] = None if name in self._makers else found
        self._places = places

    def value(self, register: str) -> Value | None:
        """None where it is not known, or hangs on more than `_DEEPEST` others in a row."""
        if register not in self._known:
            self._known[register] = None  # what hangs on itself is not known
            maker = self._makers.get(register)
            if maker and not maker.predicate and len(maker.writes) == 1 and self._depth < _DEEPEST:
                self._depth += 1
                self._known[register] = self._result(maker)
                self._depth -= 1
        return self._known[register]

    def _result(self, maker: ptx.Instruction) -> Value | None:
        name, *kinds = maker.name.split(".")
        operands = [word.strip() for word in maker.operands.split(",")][1:]
        if name == "ld" and kinds[0] == "param":
            return self._launched(operands[0])
        given = [self._operand(word) for word in operands]
        if name not in _RULES or not _TYPE.match(kinds[-1]) or any(value is None for value in given):
            return None
        values = [value for value in given if value is not None]
        somewhere = [value.somewhere for value in values]
        if any(somewhere) and (name not in _MOVES or not all(map(_WIDE.match, kinds))):
            return None
        if name == "sub" and somewhere[1]:
            return None
        result = _RULES[name](kinds, [value.parts for value in values])
        return None if result is None else Value(result, any(somewhere))

    def _operand(self, word: str) -> Value | None:
        if word == "%tid.x":
            return Value(np.arange(MOST, dtype=np.uint64))
        if word.startswith("%"):
            return self.value(word)
        if word in self._places:
            return Value(np.zeros(MOST, np.uint64), somewhere=True)
        try:
            return Value(np.full(MOST, int(word, 0) % 2**64, np.uint64))
        except ValueError:
            return None

    def _launched(self, place: str) -> Value | None:
        """An offset of group memory out of the entry's parameter."""
        base, _, offset = place.strip("[]").partition("+")
        maker = self._makers.get(base)
        if maker and maker.name.startswith("mov."):
            base = maker.operands.split(",")[1].strip()
        if base.endswith("_param_0") and offset.isdigit() and int(offset) in _GROUP_MEMORY:
            return Value(np.zeros(MOST, np.uint64), somewhere=True)
        return None


def _read(parts: _Parts, kind: str) -> npt.NDArray[np.int64]:
    """As a number of a type."""
    bits = int(kind[1:])
    raw = _cut(parts, bits)
    if kind[0] == "s" and bits < 64:
        raw = (raw ^ np.uint64(1 << bits - 1)) - np.uint64(1 << bits - 1)
    return raw.view(np.int64)


def _cut(parts: _Parts, bits: int) -> _Parts:
    return parts if bits == 64 else parts & np.uint64(2**bits - 1)


def _wrapped(result: npt.NDArray[np.int64], kind: str, times: int = 1) -> _Parts:
    return _cut(result.view(np.uint64), min(64, times * int(kind[1:])))


def _sum(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    return _wrapped(_read(values[0], kinds[-1]) + _read(values[1], kinds[-1]), kinds[-1]) if len(kinds) == 1 else None


def _difference(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    return _wrapped(_read(values[0], kinds[-1]) - _read(values[1], kinds[-1]), kinds[-1]) if len(kinds) == 1 else None


def _product(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    """mul.lo, mul.wide and, with a third operand, mad."""
    half, kind = kinds[0], kinds[-1]
    times = {"lo": 1, "wide": 2}.get(half)
    if times is None:
        return None
    result = _read(values[0], kind) * _read(values[1], kind)
    if len(values) == 3:
        result = result + values[2].view(np.int64)
    return _wrapped(result, kind, times)


def _converted(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    to = kinds[0]
    whole = (
        len(kinds) == 2 and _TYPE.match(to) and (to[0] != "s" or _WIDE.match(to))
    )  # else it extends into its register
    return _wrapped(_read(values[0], kinds[1]), kinds[0]) if whole else None


def _shifted_up(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    count = _cut(values[1], 32)
    return _cut(np.where(count < 64, values[0] << np.minimum(count, 63), 0).astype(np.uint64), int(kinds[-1][1:]))


def _shifted_down(kinds: list[str], values: list[_Parts]) -> _Parts | None:
    kind, count = kinds[-1], _cut(values[1], 32)
    one, most = _read(values[0], kind), np.minimum(count, 63)
    if kind[0] == "s":
        return _wrapped(one >> most.view(np.int64), kind)
    return np.where(count < 64, one.view(np.uint64) >> most, 0).astype(np.uint64)


_RULES = {
    "mov": lambda kinds, values: _cut(values[0], int(kinds[-1][1:])),
    "cvt": _converted,
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "mad": _product,
    "shl": _shifted_up,
    "shr": _shifted_down,
    "and": lambda kinds, values: values[0] & values[1],
    "or": lambda kinds, values: _cut(values[0] | values[1], int(kinds[-1][1:])),
    "xor": lambda kinds, values: _cut(values[0] ^ values[1], int(kinds[-1][1:])),
    "not": lambda kinds, values: _cut(~values[0], int(kinds[-1][1:])),
}
_MOVES = {"mov", "cvt", "add", "sub"}
"""What keeps an unknown multiple of `ALIGNMENT` one."""
