"""Convolutions as kernels, with the elementwise operators that follow: those that libraries are far from peak at."""

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.graph.lower_emit import Source
from kernelwright.graph.lower_epilogue import Following
from kernelwright.graph.lower_filled import FilledCall, Maker, Packing, scalar_of
from kernelwright.graph.lower_rule import Use
from kernelwright.graph.node import expression, is_contiguous, shape_of, tensor_of
from kernelwright.loops import Convolution, ScalarType, Size, Window, packed_convolution, packed_weights
from kernelwright.loops.convolution import MOST_PLANES, STRIP

aten = torch.ops.aten

LARGEST_WEIGHT = 1 << 24
"""Elements of a weight that are kept a second time, packed."""
FEW_PRODUCTS = 200
"""Products for an element of the input or the result. With as many, images are as fast in a library, whatever their
size: of 40 shapes it took 1.1 to 3 times as long with 10 to 150 (at the ends 0.9 and 4.5) and 0.7 to 1.2 times with 200
to 700 (see `_pays` for where)."""
_FLOAT = ScalarType.FLOAT32


def _convolution(node: Node) -> FilledCall | None:
    x, weight, bias, stride, before, dilation, transposed, _, groups = cast(tuple[Any, ...], node.args)
    shape, taps = shape_of(x), shape_of(weight)
    rank = len(shape) - 2
    fixed = (shape[1], *taps, *stride, *before, *dilation)
    if rank not in (1, 2, 3) or len(taps) != rank + 2 or not all(isinstance(number, int) for number in fixed):
        return None
    if any(scalar_of(operand) is not _FLOAT for operand in (node, x, weight)) or not is_contiguous(tensor_of(weight)):
        return None
    padded = _three(before, 0)
    window = Window(_three(taps[2:], 1), _three(stride, 1), padded, _three(dilation, 1), transposed)
    inner = shape[1] // groups
    outer = taps[1] if transposed else taps[0] // groups
    if not window.fits or window.strip(inner) > STRIP or inner * window.taps[0] > MOST_PLANES:
        return None
    if prod(taps) > LARGEST_WEIGHT or not _pays(window, rank, groups, inner, outer):
        return None
    following = Following(node, _along)
    if not is_contiguous(tensor_of(following.last)):
        return None
    epilogue = following.epilogue((bias, "channel") if isinstance(bias, Node) else None)
    made = shape_of(node)
    symbols: dict[Any, Any] = {}
    sizes: list[Size] = []
    for size in (shape[0], *_three(shape[2:], 1), *_three(made[2:], 1)):
        value = expression(size)
        if not isinstance(value, int):
            symbols.setdefault(value, size)
        sizes.append(value if isinstance(value, int) else f"n{list(symbols).index(value)}")
    kernel = Convolution(
        window,
        groups,
        inner,
        outer,
        tuple(sizes),
        epilogue,
        note=f"{'transposed ' if transposed else ''}convolution {' x '.join(map(str, made))}",
    )
    packer = packed_convolution(window, groups, inner, outer)
    return FilledCall(
        kernel,
        tuple(Source(operand, None) for operand in (x, *following.operands)),
        tuple(symbols.values()),
        (following.last,),
        tuple(reversed(following.members)),
        Packing(packer, weight, packed_weights(window, groups, inner, outer)),
    )


def _three(numbers: Sequence[Any], fill: int) -> tuple[Any, Any, Any]:
    return (*[fill] * (3 - len(numbers)), *numbers)  # type: ignore[return-value]


def _pays(window: Window, rank: int, groups: int, inner: int, outer: int) -> bool:
    """Whether libraries are far from peak here (measured with torch 2.13 on AVX-512, two threads, parts of peak).

    Transposed with a stride 0.05 to 0.3, volumes of few channels 0.1 to 0.3, groups of few channels 0.1 to 0.8, lines
    0.5 to 0.9. Images where few products are made of an element: a library lays the input and the result out anew.
    """
    if window.transposed:
        return max(window.stride) > 1
    if groups > 1:
        return 1 < inner <= 16 and rank < 3  # depthwise ones have a template that knows which to leave alone
    if rank == 2:
        return inner * outer * prod(window.taps) < FEW_PRODUCTS * (inner * prod(window.stride) + outer)
    return rank == 1 or inner <= 8


def _along(use: Use, wide: Sequence[tuple[int, ...]], space: Sequence[Any]) -> str:
    """See lower_epilogue.Along."""
    return "channel" if wide == [(1,)] and prod(shape_of(use.node)) == space[1] else ""


CONVOLUTIONS: dict[Any, Maker] = {aten.convolution.default: _convolution}
