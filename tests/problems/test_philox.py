"""The generator against the published vectors, and against itself as it was when archives were first written."""

import numpy as np
import pytest

from kernelwright.problems.philox import Stream, _on_circle, gather


def test_known_answers() -> None:
    # kat_vectors of Random123 1.14, philox4x64 with ten rounds, counter 0, key 0; NumPy counts before it draws
    generator = np.random.Philox(counter=2**256 - 1, key=0)
    first = (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)
    assert tuple(int(word) for word in generator.random_raw(4)) == first


def test_the_words_are_those_of_the_key() -> None:
    raw = np.random.Philox(key=9 | 5 << 64 | 3 << 96).random_raw(3)
    halves = [half for word in raw.tolist() for half in (word & 0xFFFFFFFF, word >> 32)]
    assert gather(Stream(9, 5, 3).words, 5, np.uint32).tolist() == halves[:5]


def test_angles_are_on_the_circle() -> None:
    words = np.concatenate((np.arange(0, 2**32, 9_973, np.uint32), np.array([2**32 - 1, 2**31, 1], np.uint32)))
    angles = words.astype(np.float64) * (2 * np.pi / 2**32)
    cosine, sine = _on_circle(words)
    np.testing.assert_allclose(cosine, np.cos(angles), rtol=0, atol=1e-15)
    np.testing.assert_allclose(sine, np.sin(angles), rtol=0, atol=1e-15)


def test_golden_values() -> None:
    stream = Stream(7, 3)
    np.testing.assert_array_equal(gather(stream.uniform, 3, np.float64), GOLDEN_UNIFORM)
    np.testing.assert_allclose(gather(stream.normal, 3, np.float64), GOLDEN_NORMAL, rtol=1e-12)
    assert gather(stream.integers, 4, np.int64, -5, 5).tolist() == GOLDEN_INTEGERS
    assert stream.permutation(6).tolist() == GOLDEN_ORDER


GOLDEN_UNIFORM = [0.5241206288337708, 0.4821285605430603, 0.29393845796585083]
GOLDEN_NORMAL = [-0.3098394160154398, -0.19543858261540836, 1.0936480911611903]
GOLDEN_INTEGERS = [0, 0, -2, 2]
GOLDEN_ORDER = [2, 5, 3, 0, 4, 1]


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
