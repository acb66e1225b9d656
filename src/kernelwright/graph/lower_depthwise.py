"""Depthwise convolutions as kernels, in one and two dimensions."""

from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.lower_filled import FilledCall, Maker, call_of, scalar_of
from kernelwright.graph.node import shape_of
from kernelwright.loops.cpp import MEMORY

aten = torch.ops.aten

LARGEST_WINDOW = 49
"""The products of an output are written out."""
STRIP = 16384
"""Elements of the padded strip of rows (templates/depthwise.hpp)."""
LEAST_WIDTH = 16
"""Outputs of a row are the lanes of vectors, and a row has at least one: of narrow planes the library, which takes
channels, is faster."""


def _depthwise(node: Node) -> FilledCall | None:
    x, weight, bias, stride, before, dilation, transposed, _, groups = cast(tuple[Any, ...], node.args)
    shape, taps, made = shape_of(x), shape_of(weight), shape_of(node)
    rank = len(shape) - 2
    type = scalar_of(x)
    if transposed or rank not in (1, 2) or groups != shape[1] or type is None or not type.floating:
        return None
    if groups < 2 or scalar_of(weight) is not type or not all(isinstance(size, int) for size in (*shape[1:], *taps)):
        return None
    one, zero = [1] * (2 - rank), [0] * (2 - rank)
    window = [*one, *taps[2:]]
    strides, gaps, margin = [*one, *stride], [*one, *dilation], [*zero, *before]
    reach = [(size - 1) * gap + 1 for size, gap in zip(window, gaps, strict=True)]
    row = (made[-1] + (reach[1] - 1) // strides[1]) * strides[1]
    if window[0] * window[1] > LARGEST_WINDOW or made[-1] < LEAST_WIDTH or row * reach[0] > STRIP:
        return None
    numbers = [*window, *strides, *gaps]
    call = f"depthwise::run<{', '.join([MEMORY[type], *map(str, numbers)])}>"
    planes = [*one, *shape[2:]], [*one, *made[2:]]
    sizes = [shape[0], shape[1], taps[0] // groups, *planes[0], *planes[1], *margin]
    operands = [x, weight, *([bias] if isinstance(bias, Node) else [])]
    return call_of("depthwise", call, node, [node], operands, sizes)


DEPTHWISE: dict[Any, Maker] = {aten.convolution.default: _depthwise}
