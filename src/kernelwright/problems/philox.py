"""Random numbers that depend on a seed alone: on no torch release, no NumPy release, no order of calls.

The generator is Philox4x64-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3"
(SC 2011), of whose raw words NumPy promises that they never change (NEP 19). Of its 128-bit key one half is the seed,
the other a stream and a part, so that each tensor of a case has numbers of its own, whatever its neighbours' sizes.

Everything comes in chunks, which fit the caches and keep the float64 work small beside a large tensor.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

_CHUNK = 1 << 16
"""Values of a chunk: half a megabyte of float64, about a core's second-level cache."""
_LONG = (1 << 64) - 1
_HALF = (1 << 32) - 1


class Stream:
    """One sequence of numbers. Each of its verbs begins at the sequence's start, so draw once from a stream."""

    def __init__(self, seed: int, stream: int, part: int = 0) -> None:
        self._key = (seed & _LONG) | (stream & _HALF) << 64 | (part & _HALF) << 96

    def words(self, count: int) -> Iterator[np.ndarray]:
        """`count` words as uint32 arrays of at most a chunk: the low half of each long word, then its high half."""
        for long in self._long_words(-(-count // 2), _CHUNK // 2):
            halves = long.astype("<u8", copy=False).view("<u4")
            yield halves[: min(halves.size, count)]
            count -= halves.size

    def uniform(self, count: int, bits: int = 24) -> Iterator[np.ndarray]:
        """float64 in [0, 1), multiples of 2**-bits (at most 53), so that a type with `bits` digits holds them."""
        if bits <= 32:
            shift, scale = np.uint32(32 - bits), 2.0**-bits
            for words in self.words(count):
                yield (words >> shift).astype(np.float64) * scale
        else:
            for words in self._long_words(count):
                yield (words >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits

    def normal(self, count: int) -> Iterator[np.ndarray]:
        """float64 of mean 0 and deviation 1 (Box and Muller 1958), at most 6.66 in size."""
        for words in self.words(count + count % 2):
            half = words.size // 2
            radius = np.sqrt(-2.0 * np.log((words[:half].astype(np.float64) + 1.0) * 2.0**-32))
            cosine, sine = _on_circle(words[half:])
            values = np.concatenate((radius * cosine, radius * sine))
            yield values[: min(values.size, count)]
            count -= values.size

    def integers(self, count: int, low: int, high: int) -> Iterator[np.ndarray]:
        """int64 from `low` to `high`, both included. The bias of a span of n is at most n / 2**32."""
        span = high - low + 1
        if span < 1:
            raise ValueError(f"no integer lies between {low} and {high}")
        if span <= 1 << 32:
            for words in self.words(count):
                yield ((words.astype(np.uint64) * np.uint64(span)) >> np.uint64(32)).astype(np.int64) + low
        else:
            for words in self._long_words(count):
                offset = words % np.uint64(span) if span < 1 << 64 else words
                yield (offset + np.uint64(low & 0xFFFFFFFFFFFFFFFF)).view(np.int64)

    def permutation(self, count: int) -> np.ndarray:
        """int64: the numbers below `count` in random order."""
        keys = gather(self._long_words, count, np.uint64)
        # Keys that carry their places in their last bits are sorted, which is many times as fast as sorting places.
        places = np.uint64((1 << max(count - 1, 0).bit_length()) - 1)
        keys &= ~places
        keys |= np.arange(count, dtype=np.uint64)
        keys.sort()
        return (keys & places).astype(np.int64)

    def _long_words(self, count: int, chunk: int = _CHUNK) -> Iterator[np.ndarray]:
        """`count` words of 64 bits as uint64 arrays of at most `chunk`."""
        generator = np.random.Philox(key=self._key)
        for start in range(0, count, chunk):
            yield generator.random_raw(min(chunk, count - start))


def _on_circle(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of 2 pi words / 2**32, within 2**-52: a table's angle, turned by less than 2**-10. Four times as
    fast as asking for each, and the same wherever numbers are IEEE 754's."""
    place = (words >> np.uint32(32 - _TABLE_BITS)).astype(np.intp)
    rest = (words & np.uint32((1 << (32 - _TABLE_BITS)) - 1)).astype(np.float64) - 2.0 ** (31 - _TABLE_BITS)
    turn = rest * (2.0 * math.pi * 2.0**-32)
    square = turn * turn
    sine, cosine = turn * (1.0 - square * (1.0 / 6.0)), 1.0 - square * (0.5 - square * (1.0 / 24.0))
    start_cosine, start_sine = _COSINES[place], _SINES[place]
    return start_cosine * cosine - start_sine * sine, start_sine * cosine + start_cosine * sine


_TABLE_BITS = 12
_ANGLES = [2.0 * math.pi * (place + 0.5) / (1 << _TABLE_BITS) for place in range(1 << _TABLE_BITS)]
_COSINES, _SINES = np.array([math.cos(angle) for angle in _ANGLES]), np.array([math.sin(angle) for angle in _ANGLES])


def gather(draw: Callable[..., Iterator[np.ndarray]], count: int, dtype: type, *bounds: int) -> np.ndarray:
    """All chunks of `draw(count, *bounds)` as one array."""
    values = np.empty(count, dtype)
    start = 0
    for chunk in draw(count, *bounds):
        values[start : start + chunk.size] = chunk
        start += chunk.size
    return values
