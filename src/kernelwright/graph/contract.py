"""Whether a graph with open sizes holds for all sizes of its contract."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from kernelwright.errors import CaptureError
from kernelwright.graph.node import expression, placeholders_of
from kernelwright.records import Range

_TRIED = 4096
"""Combinations of sizes for which a guard is tried; wider contracts are sampled evenly."""


def check_contract(
    environment: Any,
    graph: fx.GraphModule,
    dynamic: Mapping[int, Mapping[int, Range]],
    order: Sequence[int],
    fakes: Sequence[Tensor],
) -> None:
    """Raises CaptureError where tracing fixed an open size, or where a guard fails for sizes of the contract.

    Sizes that the code needs to be equal may be: two ranges tied by it are one. A guard that only sets a size of
    one aside (torch takes 1 for a constant) is not held against the contract.
    """
    ranges: dict[sympy.Symbol, Range] = {}
    for index, fake in zip(order, fakes, strict=True):
        for dim, size in dynamic.get(index, {}).items():
            if size.low == size.high:
                continue
            symbol = environment.replace(sympy.sympify(expression(fake.shape[dim])))
            if not isinstance(symbol, sympy.Symbol):
                raise CaptureError(
                    f"dimension {dim} of argument {index} may be {size.low} to {size.high} by contract, "
                    f"but the code fixes it to {symbol}"
                )
            ranges[symbol] = size
    for guard in environment.guards:
        condition = environment.replace(guard.expr)
        for sizes in _combinations({symbol: ranges[symbol] for symbol in condition.free_symbols if symbol in ranges}):
            if condition.xreplace(sizes) == sympy.false:
                named = ", ".join(str(size) for size in sizes.values())
                raise CaptureError(
                    f"the code branches on an open size: where {guard.expr} is false, as for {named}, "
                    "it goes another way"
                )
    for place in placeholders_of(graph.graph):
        if free_unbacked_symbols(place.meta["val"]):
            raise CaptureError(f"the sizes of {place} depend on the values of tensors")


def _combinations(ranges: dict[sympy.Symbol, Range]) -> Any:
    share = max(2, int(_TRIED ** (1 / max(1, len(ranges)))))
    choices = []
    for size in ranges.values():
        low = max(2, size.low)
        step = max(1, (size.high - low) // share)
        choices.append(sorted({*range(low, size.high + 1, step), size.high}))
    for sizes in itertools.product(*choices):
        yield dict(zip(ranges, map(sympy.Integer, sizes), strict=True))
