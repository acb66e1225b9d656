"""Tiles and streamed results compute what the plain nest computes, at every size and alignment."""

import ctypes
import itertools
import math
from collections.abc import Callable

import pytest
import torch

import kernelwright
from kernelwright.loops import (
    Apply,
    Fusion,
    Move,
    Op,
    Operand,
    Plan,
    Reduction,
    Result,
    ScalarType,
    Step,
    Variable,
    nest,
    print_cpp,
    scheduled,
    streamed,
    turned,
)
from kernelwright.loops.nest import statements

TORCH = {
    ScalarType.FLOAT32: torch.float32,
    ScalarType.FLOAT64: torch.float64,
    ScalarType.BFLOAT16: torch.bfloat16,
    ScalarType.FLOAT16: torch.float16,
}
TRANSPOSE = """kernel void turn(float* to, const float* from, int64 rows, int64 columns, int64 s, int64 t) {
    tiles::transpose(to, s, from, t, rows, columns);
}
kernel void line(uint8* to, const uint8* from, int64 count) { tiles::stream(to, from, count); }
kernel void line_of_doubles(double* to, const double* from, int64 count) { tiles::stream(to, from, count); }
"""


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (16, 16), (17, 5), (33, 47), (3, 64), (48, 31)])
def test_transpose(build: Callable[..., ctypes.CDLL], rows: int, columns: int) -> None:
    source, target = torch.randn(rows, columns + 3), torch.zeros(columns, rows + 2)
    function = build(TRANSPOSE).turn
    function.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 4
    function(target.data_ptr(), source.data_ptr(), rows, columns, rows + 2, columns + 3)
    assert torch.equal(target[:, :rows], source[:, :columns].T)
    assert not target[:, rows:].any()


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 300, 1024])
@pytest.mark.parametrize("offset", [0, 1, 63])
def test_stream(build: Callable[..., ctypes.CDLL], offset: int, count: int) -> None:
    for name, dtype in (("line", torch.uint8), ("line_of_doubles", torch.float64)):
        source, target = torch.randint(1, 255, (count,)).to(dtype), torch.zeros(offset + count + 2, dtype=dtype)
        function = getattr(build(TRANSPOSE), name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
        function(target[offset:].data_ptr(), source.data_ptr(), count)
        assert torch.equal(target[offset : offset + count], source)
        assert not target[offset + count :].any()
        assert not target[:offset].any()


def softmax(rows: int, cols: int, strides: tuple[int, int], out: tuple[int, int], type: ScalarType) -> Fusion:
    t = type.compute
    x, best, e = Variable("x", t), Variable("best", t), Variable("e", t)
    return Fusion(
        "softmax",
        (rows, cols),
        1,
        (Operand("x", type, strides),),
        (
            Step("best", x, Reduction.MAXIMUM),
            Step("e", Apply(Op.EXP, (Apply(Op.SUB, (x, best)),))),
            Step("total", e, Reduction.SUM),
            Step("out", Apply(Op.DIV, (e, Variable("total", t)))),
        ),
        (Result("out0", type, "out", out), Result("out1", type, "best", (1,), row=True)),
    )


def moves(kernel) -> int:
    return sum(isinstance(statement, Move) for statement in statements(kernel.body))


@pytest.mark.parametrize("type", TORCH, ids=lambda type: type.value)
@pytest.mark.parametrize(("rows", "cols"), [(4, 4), (16, 64), (37, 101), (100, 16)])
def test_rows_across_memory(rows: int, cols: int, type: ScalarType) -> None:
    for from_columns, to_columns in itertools.product((False, True), repeat=2):
        strides, out = ((1, rows) if flag else (cols, 1) for flag in (from_columns, to_columns))
        kernel = scheduled(nest(softmax(rows, cols, strides, out, type)), Plan(grain_elements=1))
        in_bands = from_columns and to_columns and rows >= 16  # see columns.py
        assert moves(kernel) == (0 if in_bands else from_columns + to_columns)
        x, dtype = torch.randn(rows, cols).to(TORCH[type]), TORCH[type]
        given = x.T.contiguous() if from_columns else x
        got, best = torch.full((cols, rows) if to_columns else (rows, cols), 7, dtype=dtype), x.new_zeros(rows)
        kernelwright.compile(print_cpp(kernel), language="cpp").softmax(got, best, given)
        tolerance = 4 * torch.finfo(dtype).eps
        expected = torch.softmax(x.double(), -1)
        torch.testing.assert_close((got.T if to_columns else got).double(), expected, rtol=tolerance, atol=tolerance)
        assert torch.equal(best, x.amax(-1))


def doubled(dims: tuple, strides: tuple, sizes: tuple[str, ...] = (), dense: tuple | None = None) -> Fusion:
    dense = dense or tuple(math.prod(dims[position + 1 :]) for position in range(len(dims)))
    x = Variable("x", ScalarType.FLOAT32)
    step = Step("out", Apply(Op.ADD, (x, x)))
    return Fusion(
        "doubled",
        dims,
        1,
        (Operand("x", ScalarType.FLOAT32, strides),),
        (step,),
        (Result("out0", ScalarType.FLOAT32, "out", dense),),
        sizes,
    )


@pytest.mark.parametrize("shape", [(5, 9), (40, 300), (3, 17, 130), (20, 3, 33), (2, 3, 4, 5)])
def test_elements_across_memory(shape: tuple[int, ...]) -> None:
    for order in itertools.permutations(range(len(shape))):
        x = torch.randn(shape).permute(order)
        kernel = scheduled(nest(doubled(tuple(x.shape), x.stride())), Plan(grain_elements=1))
        out = torch.zeros(x.shape)
        kernelwright.compile(print_cpp(kernel), language="cpp").doubled(
            out, x.permute(*map(order.index, range(len(order))))
        )
        assert torch.equal(out, 2 * x)


def test_dynamic_sizes_across_memory() -> None:
    kernel = scheduled(nest(doubled(("n", "m"), (1, "n"), ("n", "m"), ("m", 1))), Plan(grain_elements=1))
    assert moves(kernel) == 1
    library = kernelwright.compile(print_cpp(kernel), language="cpp")
    for n, m in [(1, 1), (3, 200), (33, 129), (0, 4)]:
        x, out = torch.randn(m, n), torch.zeros(n, m)
        library.doubled(out, x, n, m)
        assert torch.equal(out, 2 * x.T)


@pytest.mark.parametrize("shape", [(1023,), (1025,), (5, 100), (1, 4000), (3, 4001)])
def test_streamed_results(shape: tuple[int, ...]) -> None:
    dense = tuple(math.prod(shape[position + 1 :]) for position in range(len(shape)))
    kernel = scheduled(nest(doubled(shape, dense)), Plan(stream_bytes=1, grain_elements=1))
    assert moves(kernel) == 1
    x, out = torch.randn(shape), torch.zeros(shape)
    kernelwright.compile(print_cpp(kernel), language="cpp").doubled(out, x)
    assert torch.equal(out, 2 * x)


def test_what_does_not_fit_stays() -> None:
    along = nest(softmax(64, 128, (128, 1), (128, 1), ScalarType.FLOAT32))
    assert turned(along) == along
    long = nest(softmax(64, 100_000, (1, 64), (100_000, 1), ScalarType.FLOAT32))
    assert turned(long) == long
    heavy = nest(softmax(4096, 1024, (1024, 1), (1024, 1), ScalarType.FLOAT32))
    assert streamed(heavy, 1) == heavy
    small = nest(doubled((64, 64), (64, 1)))
    assert streamed(small, 1 << 20) == small
