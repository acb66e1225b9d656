"""Convolutions as kernels, with the elementwise operators that follow: those that libraries are far from peak at."""

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import torch
from torch.fx.node import Node

from kernelwright.errors import LoweringError
from kernelwright.graph.lower_emit import Source
from kernelwright.graph.lower_filled import FilledCall, Maker, Packing, scalar_of
from kernelwright.graph.lower_rule import Rule, Use, apply, each
from kernelwright.graph.lower_rules import rule_of
from kernelwright.graph.node import expression, is_contiguous, same_sizes, shape_of, tensor_of
from kernelwright.loops import (
    Convolution,
    Expression,
    Let,
    Op,
    Read,
    Reduction,
    ScalarType,
    Size,
    Variable,
    Window,
    packed_convolution,
    packed_weights,
)
from kernelwright.loops.convolution import MOST_PLANES, STRIP

aten = torch.ops.aten

MOST_FOLLOWING = 24
"""Operators after a convolution that are looked at."""
LARGEST_WEIGHT = 1 << 24
"""Elements of a weight that are kept a second time, packed."""
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
    epilogue = _Epilogue(node, bias)
    last = epilogue.members[-1]
    if not is_contiguous(tensor_of(last)):
        return None
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
        tuple(epilogue.reads.values()),
        tuple(epilogue.steps),
        epilogue.values[last],
        note=f"{'transposed ' if transposed else ''}convolution {' x '.join(map(str, made))}",
    )
    packer = packed_convolution(window, groups, inner, outer)
    return FilledCall(
        kernel,
        tuple(Source(operand, None) for operand in (x, *epilogue.reads)),
        tuple(symbols.values()),
        (last,),
        tuple(reversed(epilogue.members)),
        Packing(packer, weight, packed_weights(window, groups, inner, outer)),
    )


def _three(numbers: Sequence[Any], fill: int) -> tuple[Any, Any, Any]:
    return (*[fill] * (3 - len(numbers)), *numbers)  # type: ignore[return-value]


def _pays(window: Window, rank: int, groups: int, inner: int, outer: int) -> bool:
    """Whether libraries are far from peak here (measured with torch 2.13 on AVX-512, two threads, parts of peak).

    Transposed with a stride 0.05 to 0.3, volumes of few channels 0.1 to 0.3, groups of few channels 0.1 to 0.8, lines
    0.5 to 0.9.
    """
    if window.transposed:
        return max(window.stride) > 1
    if groups > 1:
        return 1 < inner <= 16 and rank < 3  # depthwise ones have a template that knows which to leave alone
    return rank == 1 or (rank == 3 and inner <= 8)


class _Epilogue:
    """A convolution and the elementwise operators after it that become one kernel: all but the last are used by
    others of them alone."""

    def __init__(self, node: Node, bias: Any) -> None:
        self.node = node
        self.space = shape_of(node)
        self.reads: dict[Node, Read] = {}
        self.steps: list[Let] = []
        self.members = self._chosen()
        start: Expression = Variable("sum", _FLOAT)
        if isinstance(bias, Node):
            start = self._step(apply(Op.ADD, start, self._read(bias, "channel")))
        self.values: dict[Node, Expression] = {node: start}
        for member in self.members[1:]:
            rule = rule_of(member)
            assert rule is not None  # _chosen() saw to it
            operands = [
                self.values[use.node] if use.node in self.values else self._read(use.node, _along(use, self.space))
                for use in rule.uses
            ]
            value = rule.compute(operands, _no_reduction, lambda _, value: self._step(value))
            self.values[member] = self._step(value)

    def _chosen(self) -> list[Node]:
        found: dict[Node, Rule | None] = {self.node: None}
        after = self.node.next
        while after.op != "output" and len(found) <= MOST_FOLLOWING:
            rule = rule_of(after)
            if rule is not None and self._follows(after, rule, found):
                found[after] = rule
            after = after.next
        for last in reversed(found):
            needed = {last}
            for node in reversed(found):
                if node in needed:
                    needed |= {operand for operand in node.all_input_nodes if operand in found}
            if self.node in needed and all(set(node.users) <= needed for node in needed - {last}):
                return [node for node in found if node in needed]
        return [self.node]

    def _follows(self, node: Node, rule: Rule, found: dict[Node, Rule | None]) -> bool:
        """Whether the operator makes an element of its result of one of the convolution's."""
        own = each(self.space)
        inside = [use for use in rule.uses if use.node in found]
        return (
            not rule.reduced
            and not rule.view
            and same_sizes(rule.space, self.space)
            and rule.result == own
            and scalar_of(node) is _FLOAT
            and bool(inside)
            and all(use.lies == own for use in inside)
            and all(scalar_of(use.node) is _FLOAT and _along(use, self.space) for use in rule.uses if use not in inside)
        )

    def _read(self, node: Node, along: str) -> Variable:
        self.reads.setdefault(node, Read(f"r{len(self.reads)}", _FLOAT, along))
        return Variable(self.reads[node].name, _FLOAT)

    def _step(self, value: Expression) -> Variable:
        variable = Variable(f"v{len(self.steps)}", value.type)
        self.steps.append(Let(variable, value))
        return variable


def _along(use: Use, space: Sequence[Any]) -> str:
    """What tells an element of the operand (see Read); "" where the kernel has no name for it."""
    if use.lies is None:
        return ""
    shape = shape_of(use.node)
    if use.lies == each(space) and same_sizes(shape, space):
        return "index"
    wide = [lies for size, lies in zip(shape, use.lies, strict=True) if expression(size) != 1]
    if not wide:
        return "0"
    return "channel" if wide == [(1,)] and prod(shape) == space[1] else ""


def _no_reduction(name: str, value: Expression, reduction: Reduction) -> Expression:
    raise LoweringError(f"{name} is no elementwise operator")


CONVOLUTIONS: dict[Any, Maker] = {aten.convolution.default: _convolution}
