"""Random numbers that depend on a seed alone: on no torch release, no NumPy release, no order of calls.

The generator is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3"
(SC 2011): four 32-bit words for each 128-bit counter under a 64-bit key. The key is the seed; the counter is a
position and a stream, so that each tensor of a case has numbers of its own, whatever its neighbours' sizes.

Everything comes in chunks, which fit the caches and keep the float64 work small beside a large tensor.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

_CHUNK = 1 << 16
"""Values of a chunk: half a megabyte of float64, about a core's second-level cache."""
_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """The words of `counter`: (4, n) uint32 held in uint64, word by word, as the result is."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    high, low = np.empty((2, x0.size), np.uint64), np.empty((2, x0.size), np.uint64)
    for _ in range(_ROUNDS):
        np.multiply(x0, _MULTIPLIERS[0], out=low[0])
        np.multiply(x2, _MULTIPLIERS[1], out=low[1])
        np.right_shift(low, _SHIFT, out=high)
        np.bitwise_and(low, _LOW, out=low)
        x0, x1, x2, x3 = high[1] ^ x1 ^ np.uint64(k0), low[1].copy(), high[0] ^ x3 ^ np.uint64(k1), low[0].copy()
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack((x0, x1, x2, x3))


class Stream:
    """One sequence of numbers. Each of its verbs begins at the sequence's start, so draw once from a stream."""

    def __init__(self, seed: int, stream: int, part: int = 0) -> None:
        self._key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
        self._stream = (stream & 0xFFFFFFFF, part & 0xFFFFFFFF)

    def words(self, count: int) -> Iterator[np.ndarray]:
        """`count` words of 32 bits as uint64 arrays of at most a chunk."""
        for start in range(0, count, _CHUNK):
            wanted = min(_CHUNK, count - start)
            blocks = -(-wanted // 4)
            position = np.arange(start // 4, start // 4 + blocks, dtype=np.uint64)
            counter = np.empty((4, blocks), np.uint64)
            counter[0], counter[1] = position & _LOW, position >> _SHIFT
            counter[2], counter[3] = self._stream
            yield philox(counter, self._key).T.reshape(-1)[:wanted]

    def uniform(self, count: int, bits: int = 24) -> Iterator[np.ndarray]:
        """float64 in [0, 1), multiples of 2**-bits (at most 53), so that a type with `bits` digits holds them."""
        if bits <= 32:
            shift, scale = np.uint64(32 - bits), 2.0**-bits
            for words in self.words(count):
                yield (words >> shift).astype(np.float64) * scale
        else:
            for words in self._double_words(count):
                yield (words >> np.uint64(64 - bits)).astype(np.float64) * 2.0**-bits

    def normal(self, count: int) -> Iterator[np.ndarray]:
        """float64 of mean 0 and deviation 1 (Box and Muller 1958), at most 6.66 in size."""
        for words in self.words(count + count % 2):
            half = words.size // 2
            radius = np.sqrt(-2.0 * np.log((words[:half].astype(np.float64) + 1.0) * 2.0**-32))
            angle = words[half:].astype(np.float64) * (2.0 * math.pi * 2.0**-32)
            values = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))
            yield values[: min(values.size, count)]
            count -= values.size

    def integers(self, count: int, low: int, high: int) -> Iterator[np.ndarray]:
        """int64 from `low` to `high`, both included. The bias of a span of n is at most n / 2**32."""
        span = high - low + 1
        if span < 1:
            raise ValueError(f"no integer lies between {low} and {high}")
        if span <= 1 << 32:
            for words in self.words(count):
                yield ((words * np.uint64(span)) >> _SHIFT).astype(np.int64) + low
        else:
            for words in self._double_words(count):
                offset = words % np.uint64(span) if span < 1 << 64 else words
                yield (offset + np.uint64(low & 0xFFFFFFFFFFFFFFFF)).view(np.int64)

    def permutation(self, count: int) -> np.ndarray:
        """int64: the numbers below `count` in random order."""
        keys = gather(self._double_words, count, np.uint64)
        return np.argsort(keys, kind="stable")

    def _double_words(self, count: int) -> Iterator[np.ndarray]:
        for words in self.words(2 * count):
            yield (words[0::2] << _SHIFT) | words[1::2]


def gather(draw: Callable[..., Iterator[np.ndarray]], count: int, dtype: type, *bounds: int) -> np.ndarray:
    """All chunks of `draw(count, *bounds)` as one array."""
    values = np.empty(count, dtype)
    start = 0
    for chunk in draw(count, *bounds):
        values[start : start + chunk.size] = chunk
        start += chunk.size
    return values
