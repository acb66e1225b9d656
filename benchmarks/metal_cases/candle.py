"""huggingface/candle."""

from collections.abc import Iterator

import numpy as np

from metal_cases.case import Case, blank, f32, i32, i64, packed, u32
from metal_cases.mlx import HALF, attended, softmaxed

FOLDER = "candle-metal-kernels/src/metal_src"


def cases(draw: np.random.Generator) -> Iterator[Case]:
    for make in (elementwise, rows, moving, products):
        yield from make(draw)


def _file(name: str) -> str:
    return f"{FOLDER}/{name}.metal"


def _erf(x: np.ndarray) -> np.ndarray:
    from math import erf

    return np.vectorize(erf)(x)


def elementwise(draw: np.random.Generator) -> Iterator[Case]:
    x, y = draw.standard_normal((2, 4000)).astype(np.float32)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    unary = {
        "exp": np.exp(wide),
        "sin": np.sin(wide),
        "tanh": np.tanh(wide),
        "sigmoid": 1 / (1 + np.exp(-wide)),
        "gelu_erf": 0.5 * wide * (1 + _erf(wide / np.sqrt(2))),
        "silu": wide / (1 + np.exp(-wide)),
        "sqr": wide * wide,
    }
    for name, expected in unary.items():
        arguments = [i64(4000), x, blank(4000)]
        yield Case("elementwise", _file("unary"), f"{name}_f32", arguments, {2: expected}, (256,), threads=(4000,))
    half = x.astype(np.float16)
    arguments = [i64(4000), half, blank(4000, dtype=np.float16)]
    expected = half.astype(np.float64) ** 2
    yield Case(
        "elementwise", _file("unary"), "sqr_f16", arguments, {2: expected}, (256,), threads=(4000,), tolerance=HALF
    )
    for name, expected in (
        ("badd", wide + other),
        ("bmul", wide * other),
        ("bdiv", wide / other),
        ("bmaximum", np.maximum(wide, other)),
    ):
        arguments = [i64(4000), x, y, blank(4000)]
        yield Case("elementwise", _file("binary"), f"{name}_f32", arguments, {3: expected}, (256,), threads=(4000,))
    arguments = [i64(4000), f32(2), f32(3), x, blank(4000)]
    yield Case("elementwise", _file("affine"), "affine_f32", arguments, {4: wide * 2 + 3}, (256,), threads=(4000,))
    arguments = [i64(4000), x, blank(4000, dtype=np.float16)]
    yield Case("copy", _file("cast"), "cast_f32_f16", arguments, {2: wide}, (256,), threads=(4000,), tolerance=HALF)
    yield Case(
        "copy",
        _file("fill"),
        "fill_f32",
        [blank(4000), f32(2.5), i64(4000)],
        {0: np.full(4000, 2.5)},
        (256,),
        threads=(4000,),
    )
    chosen = draw.integers(0, 2, 4000).astype(np.uint8)
    one = i64(1)
    arguments = [i64(4000), one, i64(4000), one, one, one, chosen, x, y, blank(4000)]
    constants = {0: True, 1: True, 2: True}
    yield Case(
        "elementwise",
        _file("ternary"),
        "where_u8_f32",
        arguments,
        {9: np.where(chosen, wide, other)},
        (256,),
        threads=(4000,),
        constants=constants,
    )


def rows(draw: np.random.Generator) -> Iterator[Case]:
    count, columns = 16, 1000
    x = draw.standard_normal((count, columns)).astype(np.float32)
    wide = x.astype(np.float64)
    sizes = [u32(count * columns), u32(1), u32(columns), u32(columns)]
    for name, expected in (("fast_sum", wide.sum(1)), ("fast_max", wide.max(1)), ("fast_min", wide.min(1))):
        yield Case(
            "reduce",
            _file("reduce"),
            f"{name}_f32",
            [*sizes, x, blank(count)],
            {5: expected},
            (256,),
            (count,),
            tolerance=1e-4,
        )
    for name, expected in (("fast_argmax", wide.argmax(1)), ("fast_argmin", wide.argmin(1))):
        yield Case(
            "reduce",
            _file("reduce"),
            f"{name}_f32",
            [*sizes, x, blank(count, dtype=np.uint32)],
            {5: expected},
            (256,),
            (count,),
            tolerance=0,
        )
    sizes = [u32(count * columns), u32(columns)]
    yield Case(
        "softmax",
        _file("reduce"),
        "softmax_f32",
        [*sizes, x, blank(count, columns)],
        {3: softmaxed(wide)},
        (256,),
        (count,),
    )
    weight, bias = draw.standard_normal((2, columns)).astype(np.float32)
    rms = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * weight
    yield Case(
        "norm",
        _file("reduce"),
        "rmsnorm_f32",
        [*sizes, x, blank(count, columns), weight, f32(1e-5)],
        {3: rms},
        (256,),
        (count,),
    )
    centred = wide - wide.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    yield Case(
        "norm",
        _file("reduce"),
        "layernorm_f32",
        [*sizes, x, blank(count, columns), weight, bias, f32(1e-5)],
        {3: normed},
        (256,),
        (count,),
    )
    keys = draw.standard_normal((6, 200)).astype(np.float32)
    arguments = [keys, blank(6, 200, dtype=np.uint32), i64(200), i64(256)]
    yield Case(
        "sort",
        _file("sort"),
        "asort_asc_f32",
        arguments,
        {1: keys.argsort(1, kind="stable")},
        (256, 1, 1),
        (1, 6, 1),
        tolerance=0,
        group_memory={0: 1024},
    )


def moving(draw: np.random.Generator) -> Iterator[Case]:
    table = draw.standard_normal((50, 24)).astype(np.float32)
    picks = draw.integers(0, 50, 30).astype(np.uint32)
    arguments = [
        i64(30 * 24),
        i64(1),
        i64(50),
        i64(24),
        i64(30),
        np.array([True]),
        i64(50, 24),
        i64(24, 1),
        table,
        picks,
        blank(30, 24),
    ]
    yield Case(
        "gather",
        _file("indexing"),
        "is_u32_f32",
        arguments,
        {10: table[picks].astype(np.float64)},
        (256,),
        threads=(720,),
    )
    image = draw.standard_normal((2, 3, 8, 9)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(image.astype(np.float64), (3, 3), (2, 3))
    expected = windows.transpose(0, 2, 3, 1, 4, 5).reshape(2, 6 * 7, 27)
    arguments = [
        i64(2 * 42 * 27),
        i64(6),
        i64(7),
        i64(3),
        i64(3),
        i64(1),
        i64(0),
        i64(1),
        i64(2, 3, 8, 9),
        i64(216, 72, 9, 1),
        image,
        blank(2, 42, 27),
    ]
    yield Case("convolution", _file("conv"), "im2col_f32", arguments, {11: expected}, (256,), threads=(2 * 42 * 27,))


def products(draw: np.random.Generator) -> Iterator[Case]:
    size = 64
    a, b = draw.standard_normal((2, size, size)).astype(np.float32)
    expected = a.astype(np.float64) @ b
    parameters = packed("8i3q3i", *[size] * 6, size // 32, size // 32, 0, 0, 0, 0, size // 16, 1)
    arguments = [a, b, None, blank(size, size), parameters, *[None] * 11]
    constants = {10: False, 100: False, 110: False, 200: True, 201: True, 202: True, 300: False}
    yield Case(
        "gemm",
        _file("mlx_gemm"),
        "gemm_nn_f32_f32_32_32_16_2_2",
        arguments,
        {3: expected},
        (32, 2, 2),
        (2, 2, 1),
        constants=constants,
    )
    heads, length, width = 4, 100, 64
    q = draw.standard_normal((heads, 1, width)).astype(np.float32)
    k, v = draw.standard_normal((2, heads, length, width)).astype(np.float32)
    arguments = [
        q,
        k,
        v,
        blank(heads, 1, width),
        i32(1),
        i32(length),
        i64(length * width),
        i64(length * width),
        f32(0.125),
        f32(1),
        *[None] * 6,
    ]
    yield Case(
        "attention",
        _file("scaled_dot_product_attention"),
        "sdpa_vector_float_64",
        arguments,
        {3: attended(q, k, v, 0.125)},
        (1024, 1, 1),
        (1, heads, 1),
        constants={20: False},
    )
    rows, inputs = 64, 256
    scales = (draw.random((rows, inputs // 32)) * 0.1).astype(np.float16)
    nibbles = draw.integers(0, 256, (rows, inputs // 32, 16), dtype=np.uint8)
    blocks = np.concatenate([scales.view(np.uint8).reshape(rows, -1, 2), nibbles], 2).copy()
    weights = np.concatenate([nibbles & 15, nibbles >> 4], 2).astype(np.float64) - 8
    weights = (weights * scales.astype(np.float64)[:, :, None]).reshape(rows, inputs)
    x = draw.standard_normal(inputs).astype(np.float32)
    stride = inputs // 32 * 18
    numbers = [
        i64(inputs),
        i64(rows),
        i64(1),
        i64(18),
        i64(stride),
        i64(stride * rows),
        i64(inputs),
        i64(1),
        i64(1),
        i64(4),
        i64(inputs * 4),
        i64(inputs * 4),
        i64(rows),
        i64(1),
        u32(1),
        u32(1),
    ]
    yield Case(
        "quantised",
        _file("quantized"),
        "kernel_mul_mv_q4_0_f32",
        [blocks, x, blank(rows), *numbers],
        {2: weights @ x},
        (8, 8, 1),
        (rows // 8, 1, 1),
        tolerance=2e-5,
    )
