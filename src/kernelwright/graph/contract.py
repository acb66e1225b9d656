"""Whether a graph with open sizes holds for all sizes of its contract."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch

from kernelwright.errors import CaptureError
from kernelwright.graph.captured import Capture
from kernelwright.graph.identity import text_at
from kernelwright.graph.node import example_size, expression
from kernelwright.records import Range

_TRIED = 4096
"""Combinations of sizes for which a guard is tried; wider contracts are sampled evenly."""


def check_contract(
    capture: Capture,
    shapes: Sequence[Sequence[Any]],
    dynamic: Mapping[int, Mapping[int, Range]],
    capture_at: Callable[[Sequence[Sequence[int]]], Capture],
) -> None:
    """Raises CaptureError where tracing fixed an open size, or where the code goes another way for other sizes.

    `shapes` are those of the leaves, with the symbols of open sizes. Tracing leaves guards: facts about sizes that it
    used. Where one fails within the contract the computation is captured once more at the sizes that break it; it
    is a different computation only if that text differs (torch's own kernels ask for sizes too, to no effect).
    Sizes that the code needs to be equal may be: two ranges tied by it are one. Sizes below two are not tried.
    """
    open_sizes = [(index, dim, size) for index, dims in dynamic.items() for dim, size in dims.items()]
    environment = next(
        (size.node.shape_env for shape in shapes for size in shape if isinstance(size, torch.SymInt)), None
    )
    ranges: dict[sympy.Symbol, Range] = {}
    for index, dim, size in open_sizes:
        symbol = sympy.sympify(expression(shapes[index][dim]))
        symbol = environment.replace(symbol) if environment is not None else symbol
        if isinstance(symbol, sympy.Symbol):
            ranges[symbol] = size
        elif size.low != size.high:
            raise CaptureError(
                f"dimension {dim} of argument {index} may be {size.low} to {size.high} by contract, "
                f"but the code fixes it to {symbol}"
            )
    tried: set[tuple[int, ...]] = set()
    for condition in [environment.replace(guard.expr) for guard in environment.guards] if environment else ():
        for sizes in _breaking(condition, ranges):
            complete = {symbol: sizes.get(symbol, size.example) for symbol, size in ranges.items()}
            if tuple(complete.values()) in tried:
                continue
            tried.add(tuple(complete.values()))
            concrete = [[_size_at(size, complete) for size in shape] for shape in shapes]
            if text_at(capture, complete) != _text(capture_at(concrete)):
                named = ", ".join(map(str, sizes.values()))
                raise CaptureError(f"the code goes another way for open sizes such as {named}, where not {condition}")


def _breaking(condition: sympy.Basic, ranges: Mapping[sympy.Symbol, Range]) -> list[dict[sympy.Symbol, int]]:
    """The first and the last sizes of the contract, if any, for which the condition is false."""
    asked = {symbol: size for symbol, size in ranges.items() if symbol in condition.free_symbols}
    false = [sizes for sizes in _combinations(asked) if condition.xreplace(sizes) == sympy.false]
    return [false[0], false[-1]] if false else []


def _combinations(ranges: Mapping[sympy.Symbol, Range]) -> Iterator[dict[sympy.Symbol, Any]]:
    share = max(2, int(_TRIED ** (1 / max(1, len(ranges)))))
    choices = []
    for size in ranges.values():
        low = min(max(2, size.low), size.high)
        step = max(1, (size.high - low) // share)
        choices.append(sorted({*range(low, size.high + 1, step), size.high}))
    for sizes in itertools.product(*choices):
        yield dict(zip(ranges, map(sympy.Integer, sizes), strict=True))


def _size_at(size: Any, sizes: Mapping[sympy.Symbol, Any]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    symbol = size.node.shape_env.replace(size.node.expr)
    return int(sizes.get(symbol, example_size(size)))


def _text(capture: Capture) -> str:
    return text_at(capture, {})
