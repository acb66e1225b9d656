"""ml-explore/mlx."""

from collections.abc import Iterator

import numpy as np

from metal_cases.case import Case, blank, f32, i32, i64, packed, u32

FOLDER = "mlx/backend/metal/kernels"
HALF, BFLOAT = 2e-3, 1.6e-2
"""Of results in 16 bits: two units in the last place."""


def cases(draw: np.random.Generator) -> Iterator[Case]:
    """All of them; `draw` makes the inputs."""
    for make in (elementwise, rows, sums, order, products, attention, quantised, transforms):
        yield from make(draw)


def _file(name: str) -> str:
    return f"{FOLDER}/{name}.metal"


def elementwise(draw: np.random.Generator) -> Iterator[Case]:
    x = draw.standard_normal(5000).astype(np.float32)
    y = draw.standard_normal(5000).astype(np.float32)
    wide, positive = x.astype(np.float64), np.abs(x) + np.float32(0.1)
    unary = {
        "Abs": (x, np.abs(wide)),
        "Exp": (x, np.exp(wide)),
        "Sin": (x, np.sin(wide)),
        "Cos": (x, np.cos(wide)),
        "Tanh": (x, np.tanh(wide)),
        "Sigmoid": (x, 1 / (1 + np.exp(-wide))),
        "ArcTan": (x, np.arctan(wide)),
        "Expm1": (x, np.expm1(wide)),
        "Floor": (x, np.floor(wide)),
        "Log": (positive, np.log(positive.astype(np.float64))),
        "Sqrt": (positive, np.sqrt(positive.astype(np.float64))),
        "Rsqrt": (positive, 1 / np.sqrt(positive.astype(np.float64))),
    }
    for name, (given, expected) in unary.items():
        arguments = [given, blank(5000), u32(5000)]
        yield Case(
            "elementwise", _file("unary"), f"v_{name}float32float32", arguments, {1: expected}, (256,), threads=(5000,)
        )
    half = x.astype(np.float16)
    arguments = [half, blank(5000, dtype=np.float16), u32(5000)]
    expected = np.exp(half.astype(np.float64))
    yield Case(
        "elementwise",
        _file("unary"),
        "v_Expfloat16float16",
        arguments,
        {1: expected},
        (256,),
        threads=(5000,),
        tolerance=HALF,
    )
    other = y.astype(np.float64)
    binary = {
        "Add": wide + other,
        "Multiply": wide * other,
        "Maximum": np.maximum(wide, other),
        "LogAddExp": np.logaddexp(wide, other),
        "ArcTan2": np.arctan2(wide, other),
    }
    for name, expected in binary.items():
        arguments = [x, y, blank(5000), u32(5000)]
        yield Case(
            "elementwise", _file("binary"), f"vv_{name}float32", arguments, {2: expected}, (256,), threads=(5000,)
        )
    chosen = draw.integers(0, 2, 5000).astype(bool)
    arguments = [chosen, x, y, blank(5000), u32(5000)]
    yield Case(
        "elementwise",
        _file("ternary"),
        "v_Selectfloat32",
        arguments,
        {3: np.where(chosen, wide, other)},
        (256,),
        threads=(5000,),
    )
    arguments = [f32(2.5), f32(0.5), blank(1000)]
    yield Case(
        "elementwise",
        _file("arange"),
        "arangefloat32",
        arguments,
        {2: 2.5 + 0.5 * np.arange(1000)},
        (256,),
        threads=(1000,),
    )
    arguments = [x, blank(5000, dtype=np.float16), u32(5000)]
    yield Case(
        "copy", _file("copy"), "v_copyfloat32float16", arguments, {1: wide}, (256,), threads=(5000,), tolerance=HALF
    )
    square = draw.standard_normal((48, 80)).astype(np.float32)
    arguments = [square, blank(80, 48), None, i64(1, 80)]
    yield Case(
        "copy",
        _file("copy"),
        "g2_copyfloat32float32",
        arguments,
        {1: square.T.astype(np.float64)},
        (16, 16),
        threads=(48, 80),
    )


def softmaxed(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def rows(draw: np.random.Generator) -> Iterator[Case]:
    x = draw.standard_normal((24, 1000)).astype(np.float32)
    long = draw.standard_normal((4, 6000)).astype(np.float32)
    wide, half = x.astype(np.float64), x.astype(np.float16)
    for name, given, tolerance in (
        ("block_softmax_float32", x, 1e-5),
        ("looped_softmax_float32", long, 1e-5),
        ("block_softmax_float16", half, HALF),
        ("block_softmax_precise_float16", half, HALF),
    ):
        count, columns = given.shape
        group = 1024 if "looped" in name else 256
        arguments = [given, np.full_like(given, np.nan), i32(columns)]
        expected = {1: softmaxed(given.astype(np.float64))}
        yield Case("softmax", _file("softmax"), name, arguments, expected, (group,), (count,), tolerance=tolerance)
    for name, given in (("block_logsumexp_float32", x), ("looped_logsumexp_float32", long)):
        count, columns = given.shape
        expected = np.log(np.exp(given.astype(np.float64)).sum(-1))
        group = 1024 if "looped" in name else 256
        yield Case(
            "norm", _file("logsumexp"), name, [given, blank(count), i32(columns)], {1: expected}, (group,), (count,)
        )
    weight, bias = draw.standard_normal((2, 1000)).astype(np.float32)
    arguments = [x, weight, blank(24, 1000), f32(1e-5), u32(1000), u32(1)]
    rms = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * weight
    for name, group in (("rmsfloat32", 256), ("rms_loopedfloat32", 128)):
        yield Case(
            "norm",
            _file("rms_norm"),
            name,
            [*arguments[:2], blank(24, 1000), *arguments[3:]],
            {2: rms},
            (group,),
            (24,),
            constants={20: True},
        )
    # Not 1000 columns: for threads wholly behind a row's end layer_norm_single_row writes before its own array.
    full = draw.standard_normal((24, 1024)).astype(np.float32)
    weight, bias = draw.standard_normal((2, 1024)).astype(np.float32)
    centred = full.astype(np.float64) - full.mean(-1, keepdims=True, dtype=np.float64)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    for name, group in (("layer_normfloat32", 128), ("layer_norm_loopedfloat32", 64)):
        arguments = [full, weight, bias, blank(24, 1024), f32(1e-5), u32(1024), u32(1), u32(1)]
        yield Case("norm", _file("layer_norm"), name, arguments, {3: normed}, (group,), (24,), constants={20: True})
    heads = draw.standard_normal((8, 64)).astype(np.float32)
    angle = 7.0 * 10000.0 ** (-np.arange(32) / 32)
    a, b = heads[:, :32].astype(np.float64), heads[:, 32:].astype(np.float64)
    turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], 1)
    arguments = [heads, blank(8, 64), i32(7), f32(1), i64(64), *[None] * 5, f32(np.log2(10000))]
    yield Case(
        "rope",
        _file("rope"),
        "rope_single_float32",
        arguments,
        {1: turned},
        (32, 8),
        threads=(32, 8),
        tolerance=2e-5,
        constants={1: True, 2: False, 3: False},
    )


def sums(draw: np.random.Generator) -> Iterator[Case]:
    x = draw.standard_normal(8192).astype(np.float32)
    for name, expected in (("sum", x.sum(dtype=np.float64)), ("max", x.max()), ("min", x.min())):
        arguments = [x, blank(1), i64(8192), i64(8192)]
        yield Case(
            "reduce",
            _file("reduce"),
            f"all_reduce_{name}float32",
            arguments,
            {1: np.array([expected])},
            (256,),
            (1,),
            tolerance=1e-4,
        )
    square = draw.standard_normal((32, 1024)).astype(np.float32)
    arguments = [square, blank(32), i64(1024), i64(32)]
    yield Case(
        "reduce",
        _file("reduce"),
        "row_reduce_simple_sumfloat32",
        arguments,
        {1: square.sum(1, dtype=np.float64)},
        (256, 1, 1),
        (1, 8, 1),
        tolerance=1e-4,
    )
    tall = draw.standard_normal((256, 64)).astype(np.float32)
    none = i64(0)
    arguments = [tall, blank(64), i64(256), i64(64), i32(1), none, i32(0), i32(256), i64(64), i32(1), i64(1)]
    yield Case(
        "reduce",
        _file("reduce"),
        "col_reduce_looped_1_32_32_reduce_sumfloat32",
        arguments,
        {1: tall.sum(0, dtype=np.float64)},
        (256, 1, 1),
        (2, 1, 1),
        tolerance=1e-4,
    )
    arguments = [square, blank(32, dtype=np.uint32), i32(32), i64(1024), i64(1), i64(1), i64(1), i64(1024)]
    for name, expected in (("argmax", square.argmax(1)), ("argmin", square.argmin(1))):
        given = [*arguments[:1], blank(32, dtype=np.uint32), *arguments[2:]]
        yield Case(
            "reduce",
            _file("arg_reduce"),
            f"{name}_float32",
            given,
            {1: expected},
            (256, 1),
            threads=(256, 32),
            tolerance=0,
        )


def order(draw: np.random.Generator) -> Iterator[Case]:
    x = draw.standard_normal((6, 2000)).astype(np.float32)
    wide = x.astype(np.float64)
    shifted = np.concatenate([np.zeros((6, 1)), np.cumsum(wide, 1)[:, :-1]], 1)
    for name, expected in (
        ("inclusive_sum", np.cumsum(wide, 1)),
        ("exclusive_sum", shifted),
        ("reverse_inclusive_sum", np.cumsum(wide[:, ::-1], 1)[:, ::-1]),
        ("inclusive_max", np.maximum.accumulate(wide, 1)),
    ):
        arguments = [x, blank(6, 2000), i64(2000)]
        yield Case(
            "scan",
            _file("scan"),
            f"contig_scan_{name}_float32_float32",
            arguments,
            {1: expected},
            (512, 1, 1),
            (1, 6, 1),
            tolerance=1e-4,
        )
    columns = draw.standard_normal((40, 64)).astype(np.float32)
    arguments = [columns, blank(40, 64), i64(40), i64(64), i64(2)]
    yield Case(
        "scan",
        _file("scan"),
        "strided_scan_inclusive_sum_float32_float32",
        arguments,
        {1: np.cumsum(columns.astype(np.float64), 0)},
        (256, 1, 1),
        (1, 2, 1),
        tolerance=1e-4,
    )
    keys = draw.standard_normal((5, 400)).astype(np.float32)
    strides = [i32(400), i32(1), i32(1), i32(400), i32(400)]
    yield Case(
        "sort",
        _file("sort"),
        "c_block_sort_float32_float32_bn128_tn4",
        [keys, blank(5, 400), *strides],
        {1: np.sort(keys, 1)},
        (128, 1, 1),
        (1, 5, 1),
        tolerance=0,
    )
    yield Case(
        "sort",
        _file("sort"),
        "carg_block_sort_float32_uint32_bn128_tn4",
        [keys, blank(5, 400, dtype=np.uint32), *strides],
        {1: np.argsort(keys, 1, kind="stable")},
        (128, 1, 1),
        (1, 5, 1),
        tolerance=0,
    )
    numbers = draw.integers(-1000, 1000, (5, 400)).astype(np.int32)
    yield Case(
        "sort",
        _file("sort"),
        "c_block_sort_int32_int32_bn128_tn4",
        [numbers, blank(5, 400, dtype=np.int32), *strides],
        {1: np.sort(numbers, 1)},
        (128, 1, 1),
        (1, 5, 1),
        tolerance=0,
    )
    yield Case(
        "random",
        _file("random"),
        "rbitsc",
        [u32(1, 2), blank(64, dtype=np.uint8), np.array([False]), np.array([64], np.uint64)],
        {1: threefry(1, 2, 16).view(np.uint8)},
        (1, 8),
        threads=(1, 8),
        tolerance=0,
    )


def threefry(first: int, second: int, words: int) -> np.ndarray:
    """Random bits as Salmon and others define Threefry-2x32 with twenty rounds: `words` of 32 bits."""
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    keys = np.array([first, second, first ^ second ^ 0x1BD11BDA], np.uint32)
    x = np.arange(words // 2, dtype=np.uint32) + keys[0]
    y = np.arange(words // 2, words, dtype=np.uint32) + keys[1]
    for step in range(5):
        for turn in turns[step % 2]:
            x = x + y
            y = (y << np.uint32(turn)) | (y >> np.uint32(32 - turn))
            y = y ^ x
        x = x + keys[(step + 1) % 3]
        y = y + keys[(step + 2) % 3] + np.uint32(step + 1)
    return np.concatenate([x, y])


def products(draw: np.random.Generator) -> Iterator[Case]:
    size = 128
    a, b = draw.standard_normal((2, size, size)).astype(np.float32)
    kinds = (
        ("nn_float32_float32_bm64_bn64_bk16_wm2_wn2", np.float32, 1e-5),
        ("nt_float32_float32_bm64_bn64_bk16_wm2_wn2", np.float32, 1e-5),
        ("tn_float32_float32_bm64_bn32_bk32_wm2_wn2", np.float32, 1e-5),
        ("nn_float32_float32_bm32_bn32_bk16_wm2_wn2", np.float32, 1e-5),
        ("nn_float16_float16_bm64_bn64_bk16_wm2_wn2", np.float16, HALF),
        ("nt_float16_float16_bm64_bn64_bk16_wm1_wn2", np.float16, HALF),
    )
    for name, dtype, tolerance in kinds:
        m, n, k = (int(name.split(word)[1].split("_")[0]) for word in ("_bm", "_bn", "_bk"))
        wide, tall = (int(name.split(word)[1].split("_")[0]) for word in ("_wm", "_wn"))
        left, right = a.astype(dtype), b.astype(dtype)
        first, second = left.astype(np.float64), right.astype(np.float64)
        expected = (first.T if name[0] == "t" else first) @ (second.T if name[1] == "t" else second)
        parameters = packed("8i3q3i", *[size] * 6, size // n, size // m, 0, 0, 0, 0, size // k, 1)
        arguments = [left, right, None, np.full((size, size), np.nan, dtype), parameters, None, None, None]
        yield Case(
            "gemm",
            _file("steel/gemm/kernels/steel_gemm_fused"),
            f"steel_gemm_fused_{name}",
            arguments,
            {3: expected},
            (32, tall, wide),
            (size // n, size // m, 1),
            tolerance=tolerance,
            constants={10: False, 100: False, 110: False, 200: True, 201: True, 202: True},
        )
    matrix, vector = draw.standard_normal((96, 256)).astype(np.float32), draw.standard_normal(256).astype(np.float32)
    rest = [f32(1), f32(0), i32(1), i32(1), i64(0), i64(0), i64(0), i32(0)]
    arguments = [matrix, vector, f32(0), blank(96), i32(256), i32(96), i32(256), *rest]
    yield Case(
        "gemv",
        _file("gemv"),
        "gemv_float32_bm1_bn8_sm1_sn32_tm4_tn4_nc0_axpby0",
        arguments,
        {3: matrix.astype(np.float64) @ vector},
        (32, 8, 1),
        (24, 1, 1),
    )
    turned = np.ascontiguousarray(matrix.T)
    arguments = [turned, vector, f32(0), blank(96), i32(256), i32(96), i32(96), *rest]
    yield Case(
        "gemv",
        _file("gemv"),
        "gemv_t_float32_bm1_bn2_sm8_sn4_tm4_tn4_nc0_axpby0",
        arguments,
        {3: matrix.astype(np.float64) @ vector},
        (32, 2, 1),
        (3, 1, 1),
    )


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    q, k, v = (item.astype(np.float64) for item in (q, k, v))
    return softmaxed(q @ k.swapaxes(-1, -2) * scale) @ v


def attention(draw: np.random.Generator) -> Iterator[Case]:
    heads, length = 4, 200
    off = {20: False, 21: False, 22: False, 23: False, 24: False, 25: False, 26: 1}
    for width in (64, 128):
        q = draw.standard_normal((heads, 1, width)).astype(np.float32)
        k, v = draw.standard_normal((2, heads, length, width)).astype(np.float32)
        strides = [i64(length * width), i64(width), i64(length * width), i64(width)]
        arguments = [q, k, v, blank(heads, 1, width), i32(1), i32(length), *strides, f32(width**-0.5), *[None] * 7]
        yield Case(
            "attention",
            _file("scaled_dot_product_attention"),
            f"sdpa_vector_float_{width}_{width}",
            arguments,
            {3: attended(q, k, v, width**-0.5)},
            (1024, 1, 1),
            (heads, 1, 1),
            constants=off,
        )
    length = 64
    for width, keys in ((64, 32), (128, 16)):
        q, k, v = draw.standard_normal((3, 2, length, width)).astype(np.float32)
        stride = (2 * length * width, length * width, width)
        numbers = (
            1,
            2,
            width,
            length,
            length,
            1,
            width**-0.5,
            length // 32,
            length // keys,
            length // 32,
            length // keys,
            0,
            0,
            0,
        )
        parameters = packed("6if7i12q", *numbers, *stride * 4)
        arguments = [q, k, v, blank(2, length, width), parameters, None, None, None]
        name = f"steel_attention_float32_bq32_bk{keys}_bd{width}_wm4_wn1_maskfloat32"
        yield Case(
            "attention",
            _file("steel/attn/kernels/steel_attention"),
            name,
            arguments,
            {3: attended(q, k, v, width**-0.5)},
            (32, 4, 1),
            (length // 32, 2, 1),
            constants={200: True, 201: True, 300: False, 301: False, 302: False},
        )


def quantised(draw: np.random.Generator) -> Iterator[Case]:
    """Four bits in groups of 64: low nibble first."""
    outputs, inputs, group = 64, 512, 64
    numbers = draw.integers(0, 16, (outputs, inputs)).astype(np.uint8)
    scales, biases = draw.standard_normal((2, outputs, inputs // group)).astype(np.float32)
    whole = numbers * scales.repeat(group, 1).astype(np.float64) + biases.repeat(group, 1)
    bits = (numbers[:, ::2] | numbers[:, 1::2] << 4).copy()
    arguments = [bits, scales, biases, blank(outputs, inputs)]
    yield Case(
        "quantised",
        _file("quantized"),
        "affine_dequantize_float_gs_64_b_4",
        arguments,
        {3: whole},
        (64, 1),
        threads=(inputs // 2, outputs),
    )
    x = draw.standard_normal((1, inputs)).astype(np.float32)
    rest = [i32(1), i32(1), i64(0), i32(1), i32(1), i64(0), i64(0), i64(0)]
    arguments = [bits.view(np.uint32), scales, biases, x, blank(1, outputs), i32(inputs), i32(outputs), *rest]
    for kind in ("qmv_fast", "qmv"):
        given = [*arguments[:4], blank(1, outputs), *arguments[5:]]
        yield Case(
            "quantised",
            _file("quantized"),
            f"affine_{kind}_float_gs_64_b_4_batch_0",
            given,
            {4: x @ whole.T},
            (32, 2, 1),
            (1, outputs // 8, 1),
            tolerance=2e-5,
        )
    many = draw.standard_normal((32, inputs)).astype(np.float32)
    arguments = [
        bits.view(np.uint32),
        scales,
        biases,
        many,
        blank(32, outputs),
        i32(inputs),
        i32(outputs),
        i32(32),
        *rest,
    ]
    yield Case(
        "quantised",
        _file("quantized"),
        "affine_qmm_t_float_gs_64_b_4_alN_true_batch_0",
        arguments,
        {4: many @ whole.T},
        (32, 2, 2),
        (outputs // 32, 1, 1),
        tolerance=2e-5,
    )


def transforms(draw: np.random.Generator) -> Iterator[Case]:
    count, n = 4, 256
    x = (draw.standard_normal((count, n)) + 1j * draw.standard_normal((count, n))).astype(np.complex64)
    steps = {number: 0 for number in range(4, 22)}
    steps |= {10: 4}  # 256 = 4 * 4 * 4 * 4
    arguments = [x, np.full((count, n), np.nan, np.complex64), i32(n), i32(count)]
    expected = np.fft.fft(x.astype(np.complex128))
    for inverse in (False, True):
        given = [x, np.full((count, n), np.nan, np.complex64), *arguments[2:]]
        wanted = np.fft.ifft(x.astype(np.complex128)) if inverse else expected
        constants = {0: inverse, 1: True, 2: 4, 3: 1, **steps, 22: False}
        yield Case(
            "fft",
            _file("fft"),
            "fft_mem_256_float2_float2",
            given,
            {1: wanted.view(np.float64)},
            (1, 1, 64),
            threads=(count, 1, 64),
            tolerance=1e-5,
            constants=constants,
        )
    length, channels, size = 40, 16, 4
    signal = draw.standard_normal((2, length, channels)).astype(np.float32)
    taps = draw.standard_normal((channels, size)).astype(np.float32)
    out = length - size + 1
    shape = np.array([length * channels, channels, 1], np.int32)
    expected = sum(signal[:, i : i + out].astype(np.float64) * taps[:, i] for i in range(size))
    arguments = [signal, taps, blank(2, out, channels), shape, i32(size)]
    yield Case(
        "convolution",
        _file("conv"),
        "depthwise_conv_1d_float32",
        arguments,
        {2: np.asarray(expected)},
        (16, 8, 1),
        threads=(channels, out, 2),
    )
