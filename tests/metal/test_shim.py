"""The shim against NumPy: each kernel of shim.metal, all of them compiled at once."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelwright import simt
from kernelwright.metal import frontend
from kernelwright.simt import Report
from kernelwright.simt.compiling import verify

SOURCE = Path(__file__).with_name("shim.metal")


@pytest.fixture(scope="module")
def library() -> simt.Library:
    given = frontend.source(SOURCE.read_text(), name=str(SOURCE), constants={0: True, "pair_of": (1.5, 2.0)})
    unit = frontend.module(given).unit
    return simt.build(unit, [entry.name for entry in unit.entries])


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)


def launch(
    library: simt.Library, name: str, *values: Any, threads: Any, group: Any, memory: Mapping[int, int] | None = None
) -> Report:
    bound = {i: (v.ctypes.data, v.nbytes) if isinstance(v, np.ndarray) else bytes(v) for i, v in enumerate(values)}
    return library.launch(name, bound, threads=threads, group_size=group, group_memory=memory)


def int32(value: int) -> bytes:
    return np.int32(value).tobytes()


def test_unary(library: simt.Library, random: np.random.Generator) -> None:
    x = random.uniform(-4, 4, 64).astype(np.float32)
    out = np.full((15, 64), np.nan, np.float32)
    launch(library, "unary", out, x, int32(64), threads=(64,), group=(32,))
    d = x.astype(np.float64)
    expected = [
        np.exp(d), np.log(abs(d) + 1), np.sin(d), np.tanh(d), 1 / np.sqrt(d * d + 1), d - np.floor(d), np.rint(d),
        np.sin(np.pi * d), np.cos(np.pi * d), np.sign(d), d.clip(0, 1), 10 ** (d / 4), 2**d, np.cos(d), np.arcsinh(d),
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.array(expected), rtol=3e-6, atol=1e-6)


def test_binary(library: simt.Library, random: np.random.Generator) -> None:
    a, b = random.uniform(-2, 2, (2, 64)).astype(np.float32)
    out = np.full((10, 64), np.nan, np.float32)
    launch(library, "binary", out, a, b, int32(64), threads=(64,), group=(64,))
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = [
        np.arctan2(x, y), abs(x) ** y, np.fmod(x, y), np.copysign(x, y), x + (y - x) * 0.25, np.where(y < x, 0, 1),
        x + y, x * y + 1, x.clip(-0.5, 0.5), np.median([x, y, np.zeros(64)], axis=0),
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.array(expected), rtol=3e-6, atol=1e-6)


def test_integer(library: simt.Library, random: np.random.Generator) -> None:
    x = np.concatenate([[0, 1, 0xFFFFFFFF, 0x80000000], random.integers(0, 1 << 32, 60)]).astype(np.uint32)
    out = np.zeros((64, 12), np.uint32)
    launch(library, "integer", out, x, threads=(64,), group=(64,))
    for row, v in zip(out.tolist(), x.tolist(), strict=True):
        bits = f"{v:032b}"
        field = v >> 5 & 0x1FF
        assert row == [
            len(bits) - len(bits.lstrip("0")), len(bits) - len(bits.rstrip("0")), bits.count("1"), int(bits[::-1], 2),
            (v << 7 | v >> 25) & 0xFFFFFFFF, v * 0x9E3779B9 >> 32, field, v & ~0x70 | 0x50,
            min(v + 0xF0000000, 0xFFFFFFFF), abs(v - 1000),
            (field - 512 if field & 256 else field) & 0xFFFFFFFF, (v * v >> 32) + 1,
        ]  # fmt: skip


def test_vectors(library: simt.Library, random: np.random.Generator) -> None:
    x, c = random.standard_normal((6, 4)).astype(np.float32), random.standard_normal(4).astype(np.float32)
    p = random.standard_normal((6, 3)).astype(np.float32)
    m = random.standard_normal((3, 4)).astype(np.float32)  # columns, each as long as four numbers
    out = np.full((6, 8, 4), np.nan, np.float32)
    launch(library, "vectors", out, x, p, c.tobytes(), m.tobytes(), threads=(6,), group=(6,))
    columns = m[:, :3].T.astype(np.float64)
    for i in range(6):
        v, w = x[i].astype(np.float64), np.array([1, 2, x[i][1], x[i][0]], np.float64)
        v[0] += v @ c
        last = v / np.linalg.norm(v) - (v - c * 2 * (c @ v))
        last[:2] *= 2
        expected = [
            v * 2 + w, np.where(v > w, w, v), [*p[i], np.linalg.norm(v[:3])],
            [*(columns @ v[:3]), np.linalg.det(columns)], [*np.cross(v[:3], c[2::-1]), 1], x[i] if i & 1 else c,
            v.astype(np.float16) + np.array([1, 2, 3, 4]), last,
        ]  # fmt: skip
        np.testing.assert_allclose(out[i], np.array(expected, np.float64), rtol=1e-3, atol=1e-5)


def test_small_floats(library: simt.Library) -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(-3, 3, 16)
    h, b = torch.zeros(32, dtype=torch.float16), torch.zeros(32, dtype=torch.bfloat16)
    bound = {0: (h.data_ptr(), 64), 1: (b.data_ptr(), 64), 2: (x.data_ptr(), 64)}
    library.launch("small_floats", bound, threads=(16,), group_size=(16,))
    assert torch.equal(h[::2], x.half() * 1.5) and torch.equal(h[1::2], x.bfloat16().half())
    assert torch.equal(b[::2], x.bfloat16() + 1) and torch.equal(b[1::2], x.bfloat16().exp())


def test_atomics(library: simt.Library, random: np.random.Generator) -> None:
    x = random.integers(0, 1000, 256).astype(np.uint32)
    total, most, real = np.zeros(1, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.float32)
    counts = np.zeros(2, np.uint32)
    launch(library, "atomics", total, most, real, counts, x, threads=(256,), group=(64,))
    assert (total[0], most[0], real[0], *counts) == (-256, x.max(), 128, 512, 256)


def test_simd(library: simt.Library, random: np.random.Generator) -> None:
    x = random.integers(-100, 100, 64).astype(np.int32)
    out = np.zeros((64, 16), np.int32)
    launch(library, "simd", out, x, threads=(64,), group=(64,))
    lane = np.arange(32)
    for half in range(2):
        v, o = x[32 * half :][:32], out[32 * half :][:32]
        quads = v.reshape(8, 4)
        ballot = np.array((1 << lane[v > 0]).sum(), np.uint32).astype(np.int32)
        expected = [
            v.sum(), v.max(), v.cumsum() - v, v.cumsum(), v[lane ^ 5], np.where(lane < 29, np.roll(v, -3), v),
            np.where(lane >= 3, np.roll(v, 3), v), v[7], ballot, np.repeat(quads.sum(1), 4), np.repeat(quads[:, 2], 4),
            np.where(lane >= 2, np.roll(v, 2), -1), np.roll(v, -1), np.bitwise_xor.reduce(v), lane == 0, 2,
        ]  # fmt: skip
        for column, values in enumerate(expected):
            np.testing.assert_array_equal(o[:, column], np.broadcast_to(values, 32), err_msg=str(column))


def test_matrices(library: simt.Library, random: np.random.Generator) -> None:
    a, b = random.standard_normal((8, 8)).astype(np.float16), random.standard_normal((16, 16)).astype(np.float32)
    out = np.full(96, np.nan, np.float32)
    launch(library, "matrices", out, a, b, threads=(32,), group=(32,))
    expected = a.astype(np.float64) @ b[8:16, 1:9].T + 2 * np.eye(8)
    np.testing.assert_allclose(out[:64].reshape(8, 8), expected, rtol=1e-5, atol=1e-5)
    lane = np.arange(32)
    row, column = lane // 16 * 4 + lane // 2 % 4, lane // 8 % 2 * 4 + lane % 2 * 2
    np.testing.assert_array_equal(out[64:], out[:64].reshape(8, 8)[row, column])


def test_function_constants(library: simt.Library) -> None:
    out = np.zeros(3, np.float32)
    launch(library, "constants", out, threads=(1,), group=(1,))
    assert out.tolist() == [4, -1, 3.5]


def test_pointers_in_buffers(library: simt.Library) -> None:
    values, counts = np.arange(4, dtype=np.float32), np.array([3], np.int32)
    out = np.zeros(8, np.float32)
    addresses = np.array([values.ctypes.data, counts.ctypes.data], np.uint64)
    table = np.array([0, values.ctypes.data], np.uint64)
    launch(library, "pointers", out, addresses, table, threads=(4,), group=(4,))
    assert out.tolist() == [0, 3, 6, 9, 0, 1, 2, 3]


def test_async_copies(library: simt.Library) -> None:
    x, out = np.arange(40, dtype=np.float32), np.zeros(32, np.float32)
    launch(library, "copies", out, x, threads=(32,), group=(32,), memory={0: 160})
    assert out.tolist() == x[::-1][:32].tolist()


def test_groups_at_the_edge_are_smaller(library: simt.Library) -> None:
    out = np.zeros((5, 10, 4), np.uint32)
    launch(library, "edges", out, threads=(10, 5), group=(8, 4))
    assert out[..., 0].tolist() == [[804] * 8 + [204] * 2] * 4 + [[801] * 8 + [201] * 2]
    assert (out[..., 1] == 804).all() and out[0, :, 2].tolist() == [1, 3, 5, 7, 1, 3, 5, 7, 1, 3]
    assert out[1, :8, 3].tolist() == [2, 2, 2, 2, 3, 3, 3, 3]


def test_idioms_compile() -> None:
    """Every template of every instance is formed and checked; no code is made."""
    path = SOURCE.with_name("idioms.metal")
    unit = frontend.module(frontend.source(path.read_text(), name=str(path))).unit
    assert len(unit.entries) == 7
    verify(unit)


def test_log(library: simt.Library) -> None:
    out = np.zeros(2, np.int32)
    report = launch(library, "says", out, threads=(2,), group=(2,))
    assert re.search(r"thread 1: -5, 1\.50*, text", report.log) and out.tolist() == [1, 1]
