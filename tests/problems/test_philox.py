"""The generator against the published vectors, and against itself as it was when archives were first written."""

import numpy as np
import pytest

from kernelwright.problems.philox import Stream, gather, philox


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]) -> None:
    # kat_vectors of Random123 1.14, philox4x32 with ten rounds
    assert tuple(int(word) for word in philox(np.array(counter, np.uint64)[:, None], key)[:, 0]) == words


def test_golden_values() -> None:
    stream = Stream(7, 3)
    np.testing.assert_array_equal(gather(stream.uniform, 3, np.float64), GOLDEN_UNIFORM)
    np.testing.assert_allclose(gather(stream.normal, 3, np.float64), GOLDEN_NORMAL, rtol=1e-12)
    assert gather(stream.integers, 4, np.int64, -5, 5).tolist() == GOLDEN_INTEGERS
    assert stream.permutation(6).tolist() == GOLDEN_ORDER


GOLDEN_UNIFORM = [0.5925801992416382, 0.12378287315368652, 0.1627134084701538]
GOLDEN_NORMAL = [0.5333479462783032, -1.6553816395439327, 0.8729707397261112]
GOLDEN_INTEGERS = [1, -4, -4, 1]
GOLDEN_ORDER = [3, 1, 5, 4, 2, 0]


def test_streams_and_seeds_differ() -> None:
    draws = [
        gather(Stream(seed, stream, part).normal, 8, np.float64)
        for seed, stream, part in [(0, 0, 0), (1, 0, 0), (1 << 32, 0, 0), (0, 1, 0), (0, 0, 1)]
    ]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


@pytest.mark.parametrize("count", [0, 1, 3, 65535, 65536, 65537, 200_001])
def test_counts_across_chunks(count: int) -> None:
    stream = Stream(1, 2)
    assert gather(stream.normal, count, np.float64).shape == (count,)
    assert sum(chunk.size for chunk in stream.uniform(count)) == count
    assert sorted(stream.permutation(count)) == list(range(count))


def test_moments() -> None:
    normal = gather(Stream(5, 0).normal, 400_000, np.float64)
    assert abs(normal.mean()) < 0.01 and abs(normal.std() - 1) < 0.01 and 4 < normal.max() < 7
    uniform = gather(Stream(5, 0).uniform, 400_000, np.float64, 53)
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01


@pytest.mark.parametrize("bits", [8, 11, 24, 53])
def test_uniform_is_a_multiple_of_its_last_bit(bits: int) -> None:
    scaled = gather(Stream(1, 1).uniform, 1000, np.float64, bits) * 2.0**bits
    assert (scaled == np.floor(scaled)).all() and scaled.max() < 2.0**bits


@pytest.mark.parametrize(("low", "high"), [(0, 0), (-3, 3), (0, 2**32 - 1), (-(2**63), 2**63 - 1), (0, 2**40)])
def test_integers_stay_in_range(low: int, high: int) -> None:
    drawn = gather(Stream(2, 2).integers, 5000, np.int64, low, high)
    assert int(drawn.min()) >= low and int(drawn.max()) <= high
    assert high - low > 10 or set(drawn.tolist()) == set(range(low, high + 1))


def test_an_empty_range_is_an_error() -> None:
    with pytest.raises(ValueError, match="no integer"):
        list(Stream(0, 0).integers(3, 2, 1))
