"""Rules of operators that reduce: sums and extremes, softmax, and normalisations of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_rule import (
    SCALARS,
    Keep,
    Reduce,
    Rule,
    Use,
    apply,
    cast,
    const,
    each,
    plus,
    right_aligned,
    shape_of_value,
    times,
)
from kernelwright.graph.node import expression
from kernelwright.loops import Expression, Op, Reduction, ScalarType, Select

aten = torch.ops.aten


def _dims(given: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions as non-negative numbers; None or an empty list means all."""
    listed = [given] if isinstance(given, int) else list(given or range(ndim))
    return tuple(sorted(dim % ndim for dim in listed)) if ndim else ()


def _count(space: Sequence[Any], dims: Sequence[int]) -> int | None:
    """How many elements are reduced into one; None where that is not static."""
    count = 1
    for dim in dims:
        size = expression(space[dim])
        if not isinstance(size, int):
            return None
        count *= size
    return count


@dataclass(frozen=True)
class _Rows:
    """A tensor's space with the reduced dimensions last, as one nest has them."""

    space: tuple[Any, ...]
    lies: tuple[tuple[int, ...], ...]
    """Where each dimension of the tensor lies in it."""
    reduced: tuple[int, ...]

    def left(self, kept: bool) -> tuple[tuple[int, ...], ...]:
        """The same for what is left of the tensor; reduced dimensions that are kept lie on none."""
        places = (() if lies[0] in self.reduced else lies for lies in self.lies)
        return tuple(place for place in places if kept or place)


def _rows(shape: Sequence[Any], dims: Sequence[int]) -> _Rows:
    order = [*(dim for dim in range(len(shape)) if dim not in dims), *dims]
    lies = tuple((order.index(dim),) for dim in range(len(shape)))
    return _Rows(tuple(shape[dim] for dim in order), lies, tuple(range(len(shape) - len(dims), len(shape))))


def _argument(node: Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _reducing(
    compute: Callable[[Expression, Reduce, Keep, int], Expression | None], place: int = 1
) -> Callable[[Node], Rule | None]:
    """A rule for operators of the form op(x, dims, keepdim), the dimensions being argument `place`. `compute` gets the
    number of reduced elements as well."""

    def make(node: Node) -> Rule | None:
        source = node.args[0]
        if not isinstance(source, Node) or not isinstance(source.meta.get("val"), Tensor):
            return None
        shape = shape_of_value(source.meta["val"])
        own = SCALARS.get(node.meta["val"].dtype)
        dims = _dims(_argument(node, place, "dim", None), len(shape))
        count = _count(shape, dims)
        if own is None or not dims or not count:
            return None
        rows = _rows(shape, dims)
        result = rows.left(kept=len(shape_of_value(node.meta["val"])) == len(shape))

        def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
            value = compute(cast(values[0], own), reduce, keep, count)
            assert value is not None
            return cast(value, own)

        return Rule(rows.space, (Use(source, rows.lies),), result, run, reduced=rows.reduced)

    return make


def _over(total: Expression, count: float) -> Expression:
    """A total divided by a number, in float64: done once a row it costs little, and what it would lose in float32 all
    elements of the row would share."""
    return times(cast(total, ScalarType.FLOAT64), 1 / count)


def _variance(x: Expression, reduce: Reduce, keep: Keep, count: int, correction: float) -> Expression:
    """Two passes: the mean, then the squares of what is left. Nothing cancels, and as torch's its sum is float64."""
    mean = keep("mean", cast(_over(reduce("sum", x, Reduction.SUM), count), x.type))
    left = keep("centered", apply(Op.SUB, x, mean))
    total = reduce("squares", cast(apply(Op.MUL, left, left), ScalarType.FLOAT64), Reduction.SUM)
    return cast(_over(total, count - correction), x.type)


def _var(node: Node) -> Rule | None:
    correction = node.kwargs.get("correction", 1)
    correction = 1 if correction is None else correction
    if not isinstance(correction, (int, float)) or not node.meta["val"].dtype.is_floating_point:
        return None
    rule = _reducing(lambda x, reduce, keep, count: _variance(x, reduce, keep, count, correction))(node)
    if rule is None or (_count(rule.space, rule.reduced) or 0) <= correction:
        return None
    return replace(rule, heavy=True)


def _mean(node: Node) -> Rule | None:
    if not node.meta["val"].dtype.is_floating_point:
        return None
    return _reducing(lambda x, reduce, keep, count: cast(_over(reduce("sum", x, Reduction.SUM), count), x.type))(node)


def _sum(node: Node) -> Rule | None:
    return _reducing(lambda x, reduce, keep, count: reduce("sum", x, Reduction.SUM))(node)


def _extreme(reduction: Reduction) -> Callable[[Node], Rule | None]:
    def make(node: Node) -> Rule | None:
        if not node.meta["val"].dtype.is_floating_point:
            return None
        return _reducing(lambda x, reduce, keep, count: reduce(reduction.value, x, reduction))(node)

    return make


def _vector_norm(node: Node) -> Rule | None:
    """The Euclidean norm, where squares neither overflow nor vanish more than torch's own do."""
    if _argument(node, 1, "ord", 2) != 2 or node.kwargs.get("dtype") is not None:
        return None
    if not node.meta["val"].dtype.is_floating_point:
        return None

    def norm(x: Expression, reduce: Reduce, keep: Keep, count: int) -> Expression:
        return apply(Op.SQRT, reduce("squares", apply(Op.MUL, x, x), Reduction.SUM))

    return _reducing(norm, place=2)(node)


def _softmax(node: Node) -> Rule | None:
    return _softmax_like(node, logarithm=False)


def _log_softmax(node: Node) -> Rule | None:
    return _softmax_like(node, logarithm=True)


def _softmax_like(node: Node, logarithm: bool) -> Rule | None:
    source, dim = node.args[:2]
    own = SCALARS.get(node.meta["val"].dtype)
    if own is None or not own.floating or not isinstance(source, Node):
        return None
    shape = shape_of_value(node.meta["val"])
    dims = _dims(dim, len(shape))
    if not dims or not _count(shape, dims):
        return None
    rows = _rows(shape, dims)

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        x = keep("x", cast(values[0], own))
        # A NaN that the maximum leaves out comes back with its own term of the sum.
        centered = keep("centered", apply(Op.SUB, x, reduce("largest", x, Reduction.LARGEST)))
        e = keep("e", apply(Op.EXP_FALLING, centered))
        total = reduce("total", e, Reduction.SUM)
        if logarithm:
            return apply(Op.SUB, centered, keep("log_total", apply(Op.LOG, total)))
        exact = apply(Op.DIV, const(1, ScalarType.FLOAT64), cast(total, ScalarType.FLOAT64))
        return apply(Op.MUL, e, keep("inverse", cast(exact, own)))

    return Rule(rows.space, (Use(source, rows.lies),), rows.lies, run, reduced=rows.reduced, heavy=True)


def _normalised(
    own: ScalarType, count: int, eps: float, weight: bool, bias: bool, *, of_rows: bool = False
) -> Callable[[Sequence[Expression], Reduce, Keep], Expression]:
    """(x - mean) / sqrt(variance + eps) * weight + bias; `of_rows`: weight and bias are the same for a whole row.

    All elements of a row share what the mean and the scale lose, so both are had once more exactly: what is left after
    the mean was taken away is added up again, and of a row's own values only the last is rounded.
    """

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        given = [cast(value, own) for value in values]
        x = keep("x", given[0])
        mean = keep("mean", cast(_over(reduce("sum", x, Reduction.SUM), count), own))
        left = keep("centered", apply(Op.SUB, x, mean))
        rest = _over(reduce("rest", left, Reduction.SUM), count)
        squares = reduce("squares", apply(Op.MUL, left, left), Reduction.SUM)
        scale = inverse = keep("inverse", apply(Op.RSQRT, plus(_over(squares, count), eps)))
        if weight and of_rows:
            scale = apply(Op.MUL, inverse, cast(given[1], ScalarType.FLOAT64))
        scale = keep("scale", scale)
        # Where the mean is small beside the deviation, x is scaled as it is: a difference would be one rounding more.
        near = apply(
            Op.LT, apply(Op.MUL, cast(apply(Op.ABS, mean), ScalarType.FLOAT64), inverse), const(1, ScalarType.FLOAT64)
        )
        center = keep("center", Select(near, const(0, own), mean))
        exact = apply(Op.ADD, cast(apply(Op.SUB, mean, center), ScalarType.FLOAT64), rest)
        shift = apply(Op.NEG, apply(Op.MUL, exact, scale))
        if bias and of_rows:
            shift = apply(Op.ADD, shift, cast(given[-1], ScalarType.FLOAT64))
        factor, term = keep("factor", cast(scale, own)), keep("shift", cast(shift, own))
        result: Expression = apply(Op.ADD, apply(Op.MUL, apply(Op.SUB, x, center), factor), term)
        if weight and not of_rows:
            result = apply(Op.MUL, result, given[1])
        return apply(Op.ADD, result, given[-1]) if bias and not of_rows else result

    return run


def layer_norm(node: Node, source: Node) -> Rule | None:
    x, normalized, weight, bias, eps = source.args
    own = SCALARS.get(node.meta["val"].dtype)
    space = shape_of_value(node.meta["val"])
    dims = tuple(range(len(space) - len(normalized), len(space)))  # type: ignore[arg-type]
    count = _count(space, dims)
    if own is None or not isinstance(x, Node) or not count:
        return None
    given = [item for item in (x, weight, bias) if isinstance(item, Node)]
    uses = tuple(Use(item, right_aligned(shape_of_value(item.meta["val"]), space)) for item in given)
    run = _normalised(own, count, float(eps), isinstance(weight, Node), isinstance(bias, Node))  # type: ignore[arg-type]
    return Rule(space, uses, each(space), run, reduced=dims, heavy=True)


def group_norm(node: Node, source: Node) -> Rule | None:
    """In the space (N, groups, channels of a group, positions...); x and the result have another shape of it."""
    x, weight, bias, _, channels, _, groups, eps = source.args
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or not isinstance(x, Node) or not isinstance(channels, int) or not isinstance(groups, int):
        return None
    shape = shape_of_value(value)
    space = (shape[0], groups, channels // groups, *shape[2:])
    dims = tuple(range(2, len(space)))
    count = _count(space, dims)
    if not count:
        return None
    given = [item for item in (x, weight, bias) if isinstance(item, Node)]
    uses = tuple(Use(item, None if item is x else ((1, 2),)) for item in given)
    run = _normalised(own, count, float(eps), isinstance(weight, Node), isinstance(bias, Node))  # type: ignore[arg-type]
    return Rule(space, uses, None, run, reduced=dims, heavy=True)


def batch_statistics(node: Node, source: Node) -> Rule | None:
    """A batch's own norm (as instance norm is one, of a batch of 1): each channel, on dimension 1, is a row."""
    x, weight, bias, training, _, eps = source.args
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or not training or not isinstance(x, Node) or value.ndim < 2:
        return None
    shape = shape_of_value(value)
    rows = _rows(shape, [dim for dim in range(len(shape)) if dim != 1])
    count = _count(rows.space, rows.reduced)
    if not count:
        return None
    given = [item for item in (x, weight, bias) if isinstance(item, Node)]
    uses = tuple(Use(item, rows.lies if item is x else ((0,),)) for item in given)
    affine = isinstance(weight, Node), isinstance(bias, Node)
    run = _normalised(own, count, float(eps), *affine, of_rows=True)  # type: ignore[arg-type]
    return Rule(rows.space, uses, rows.lies, run, reduced=rows.reduced, heavy=True)


ROWS: dict[Any, Callable[[Node], Rule | None]] = {
    aten.sum.dim_IntList: _sum,
    aten.sum.default: _sum,
    aten.mean.dim: _mean,
    aten.mean.default: _mean,
    aten.amax.default: _extreme(Reduction.MAXIMUM),
    aten.amin.default: _extreme(Reduction.MINIMUM),
    aten.var.correction: _var,
    aten.linalg_vector_norm.default: _vector_norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
}
