"""ggml-org/ggml: one file of 500 KB, its arguments in structs."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from metal_cases.case import Case, blank, packed
from metal_cases.mlx import softmaxed

FILE = "src/ggml-metal/ggml-metal.metal"


def cases(draw: np.random.Generator) -> Iterator[Case]:
    for make in (rows, elementwise, products):
        yield from make(draw)


def _case(
    family: str,
    kernel: str,
    arguments: list[Any],
    expected: np.ndarray,
    group: tuple[int, ...],
    groups: tuple[int, ...],
    tolerance: float = 1e-5,
    constants: Any = None,
    memory: int = 0,
) -> Case:
    """The output is the last argument."""
    out = {len(arguments) - 1: expected}
    return Case(
        family,
        FILE,
        kernel,
        arguments,
        out,
        group,
        groups,
        tolerance=tolerance,
        constants=constants or {},
        group_memory={0: memory} if memory else {},
    )


def _shape(*sides: int) -> list[int]:
    """Four sides and the bytes from one element to the next in each, of float32."""
    full = [*sides, 1, 1, 1][:4]
    bytes_apart = [4]
    for side in full[:3]:
        bytes_apart.append(bytes_apart[-1] * side)
    return [*full, *bytes_apart]


def rows(draw: np.random.Generator) -> Iterator[Case]:
    count, columns = 12, 1000
    x = draw.standard_normal((count, columns)).astype(np.float32)
    wide = x.astype(np.float64)
    row, plane = columns * 4, columns * count * 4
    numbers = (
        columns,
        columns,
        row,
        plane,
        plane,
        1e-5,
        *[count, 1, 1] * 3,
        *[row, row, row, plane, plane, plane, plane, plane, plane],
    )
    parameters = packed("2i3Qf9i9Q", *numbers)
    rms = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    yield _case(
        "norm",
        "kernel_rms_norm_f32",
        [parameters, x, x, x, blank(count, columns)],
        rms,
        (256, 1, 1),
        (count, 1, 1),
        memory=128,
    )
    centred = wide - wide.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    yield _case(
        "norm",
        "kernel_norm_f32",
        [parameters, x, x, x, blank(count, columns)],
        normed,
        (256, 1, 1),
        (count, 1, 1),
        memory=128,
    )
    numbers = (columns, count, 1, row, plane, plane, 1, 1, 1, 0, 0, 0, row, plane, plane, 0.5, 0, 1, 1, 1)
    arguments = [packed("3i3Q3i3Q3Q4fi", *numbers), x, x, x, blank(count, columns)]
    # No mask and no sinks: the kernel knows it by the addresses, which have to be the same.
    yield _case(
        "softmax", "kernel_soft_max_f32", arguments, softmaxed(wide * 0.5), (256, 1, 1), (count, 1, 1), memory=128
    )
    shape = _shape(columns, count)
    numbers = (*shape, 1, count, 1, 1, 4, 4, 4 * count, 4 * count)
    yield _case(
        "reduce",
        "kernel_sum_rows_f32_f32",
        [packed("4q4Q4q4Q", *numbers), x, blank(count)],
        wide.sum(1),
        (256, 1, 1),
        (count, 1, 1),
        tolerance=1e-4,
        constants={1400: 10},
        memory=128,
    )
    keys = draw.standard_normal((8, 200)).astype(np.float32)
    numbers = (*_shape(200, 8), 200, 8, 1, 1, 200)
    yield _case(
        "sort",
        "kernel_argsort_f32_i32_asc",
        [packed("4i4Q5i", *numbers), keys, blank(8, 200, dtype=np.int32)],
        keys.argsort(1, kind="stable"),
        (256, 1, 1),
        (8, 1, 1),
        tolerance=0,
        memory=1024,
    )
    picks = draw.integers(0, 12, 7).astype(np.int32)
    numbers = (columns, columns, row, plane, plane, 7, 4, 28, 28, row, row * 7, row * 7)
    yield _case(
        "gather",
        "kernel_get_rows_f32",
        [packed("2i3Qi3Q3Q", *numbers), x, picks, blank(7, columns)],
        wide[picks],
        (256, 1, 1),
        (7 * 4, 1, 1),  # a thread moves one element
    )


def elementwise(draw: np.random.Generator) -> Iterator[Case]:
    x, y = draw.standard_normal((2, 4, 512)).astype(np.float32)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    shape = _shape(512, 4)
    unary = {14: np.sqrt(np.abs(wide)), 100: np.tanh(wide), 106: wide / (1 + np.exp(-wide)), 114: np.exp(wide)}
    for number, expected in unary.items():
        given = np.abs(x) if number == 14 else x
        arguments = [packed("4i4Q4i4Q6f", *shape, *shape, 0, 0, 0, 0, 0, 0), given, blank(4, 512)]
        yield _case(
            "elementwise",
            "kernel_unary_f32_f32",
            arguments,
            expected,
            (256, 1, 1),
            (8, 1, 1),
            constants={1200: number, 1201: False},
        )
    for number, expected in ((0, wide + other), (2, wide * other)):
        arguments = [packed("4i4Q4i4Q4i4QQ8Q", *shape, *shape, *shape, 0, *[0] * 8), x, y, blank(4, 512)]
        yield _case(
            "elementwise",
            "kernel_bin_fuse_f32_f32_f32",
            arguments,
            expected,
            (256, 1, 1),
            (4, 1, 1),
            constants={1300: number, 1301: 1, 1302: False, 1303: False},
        )


def products(draw: np.random.Generator) -> Iterator[Case]:
    outputs, inputs = 64, 512
    x = draw.standard_normal(inputs).astype(np.float32)
    count = inputs // 32
    scales = (draw.random((outputs, count)) * 0.1).astype(np.float16)
    head = scales.view(np.uint8).reshape(outputs, count, 2)
    factor = scales.astype(np.float64)[:, :, None]
    nibbles = draw.integers(0, 256, (outputs, count, 16), dtype=np.uint8)
    low_high = np.concatenate([nibbles & 15, nibbles >> 4], 2).astype(np.float64)
    bytes_ = draw.integers(-127, 128, (outputs, count, 32), dtype=np.int8)
    least = draw.standard_normal((outputs, count)).astype(np.float16)
    kinds = {
        "q4_0": (np.concatenate([head, nibbles], 2), (low_high - 8) * factor, 18, 4, 2),
        "q4_1": (
            np.concatenate([head, least.view(np.uint8).reshape(outputs, count, 2), nibbles], 2),
            low_high * factor + least.astype(np.float64)[:, :, None],
            20,
            4,
            2,
        ),
        "q8_0": (np.concatenate([head, bytes_.view(np.uint8)], 2), bytes_ * factor, 34, 2, 4),
    }
    for name, (blocks, weights, block_bytes, rows_each, simds) in kinds.items():
        yield _matrix_vector(
            f"kernel_mul_mv_{name}_f32",
            np.ascontiguousarray(blocks),
            weights.reshape(outputs, inputs),
            x,
            count * block_bytes,
            block_bytes,
            (outputs // (rows_each * (simds if name != "q8_0" else 1)), 1, 1),
            simds,
        )
    dense = draw.standard_normal((outputs, inputs)).astype(np.float32)
    for name, dtype in (("f32", np.float32), ("f16", np.float16)):
        given = dense.astype(dtype)
        size = given.itemsize
        yield _matrix_vector(
            f"kernel_mul_mv_{name}_f32",
            given,
            given.astype(np.float64),
            x,
            inputs * size,
            size,
            (outputs // 2, 1, 1),
            4,
        )


def _matrix_vector(
    kernel: str,
    blocks: np.ndarray,
    weights: np.ndarray,
    x: np.ndarray,
    row: int,
    block: int,
    groups: tuple[int, int, int],
    simds: int,
) -> Case:
    outputs, inputs = weights.shape
    plane = row * outputs
    numbers = (
        inputs,
        outputs,
        1,
        block,
        row,
        plane,
        plane,
        inputs,
        1,
        1,
        4,
        inputs * 4,
        inputs * 4,
        inputs * 4,
        outputs,
        1,
        2,
        1,
        1,
    )
    constants = {600: simds, 601: 8, 602: 1, 603: 1, 604: 1}
    arguments = [packed("3i4Q3i4Q3i2h", *numbers), blocks, x, blank(outputs)]
    return _case(
        "quantised" if "q" in kernel else "gemv",
        kernel,
        arguments,
        weights @ x,
        (32, simds, 1),
        groups,
        2e-5,
        constants,
        2 * 32 * 4 * 4,
    )
