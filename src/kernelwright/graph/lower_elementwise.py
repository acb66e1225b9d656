"""Rules of operators that work on each element alone, of views, and of normalisations whose statistics are given."""

from collections.abc import Callable, Sequence
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
from kernelwright.loops import Cast, Constant, Expression, Op, ScalarType, Select

aten = torch.ops.aten


def _atleast(value: Expression, low: Expression) -> Expression:
    """max(value, low), NaN where the value is."""
    return Select(apply(Op.LT, value, low), low, value)


def _atmost(value: Expression, high: Expression) -> Expression:
    return Select(apply(Op.GT, value, high), high, value)


def _relu(x: Expression) -> Expression:
    return _atleast(x, const(0, x.type))


def _sign(x: Expression) -> Expression:
    """0 at NaN too, as torch has it (NumPy's keeps NaN)."""
    zero, one = const(0, x.type), const(1, x.type)
    below = Select(apply(Op.LT, x, zero), const(-1, x.type), zero)
    return Select(apply(Op.GT, x, zero), one, below)


def _sigmoid(x: Expression) -> Expression:
    return apply(Op.SIGMOID, x)


def _gelu(x: Expression, approximate: str) -> Expression:
    if approximate == "tanh":
        half = times(x, 0.5)
        cube = apply(Op.MUL, apply(Op.MUL, x, x), x)
        inside = times(apply(Op.ADD, x, times(cube, 0.044715)), 0.7978845608028654)
        return apply(Op.MUL, half, plus(apply(Op.TANH, inside), 1))
    return apply(Op.GELU, x)


def _softplus(x: Expression, beta: float = 1, threshold: float = 20) -> Expression:
    scaled = times(x, beta)
    soft = times(apply(Op.LOG1P, apply(Op.EXP, scaled)), 1 / beta)
    return Select(apply(Op.GT, scaled, const(threshold, x.type)), x, soft)


def _hardsigmoid(x: Expression) -> Expression:
    return times(_atmost(_relu(plus(x, 3)), const(6, x.type)), 1 / 6)


def _elu(x: Expression, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expression:
    low = times(apply(Op.EXPM1, times(x, input_scale)), alpha * scale)
    return Select(apply(Op.LE, x, const(0, x.type)), low, times(x, scale))


def _leaky_relu(x: Expression, negative_slope: float = 0.01) -> Expression:
    return Select(apply(Op.GT, x, const(0, x.type)), x, times(x, negative_slope))


def _clamp(x: Expression, min: float | None = None, max: float | None = None) -> Expression:
    if min is not None:
        x = _atleast(x, const(min, x.type))
    return x if max is None else _atmost(x, const(max, x.type))


def _power(x: Expression, exponent: float) -> Expression | None:
    """x to a constant power that is a few multiplications and roots; None for others."""
    if exponent == 0:
        return const(1, x.type)
    if exponent in (1, 2, 3, 4):
        square = apply(Op.MUL, x, x)
        return {1: x, 2: square, 3: apply(Op.MUL, square, x), 4: apply(Op.MUL, square, square)}[int(exponent)]
    if not x.type.floating:
        return None
    if exponent == 0.5:
        return apply(Op.SQRT, x)
    if exponent == -0.5:
        return apply(Op.RSQRT, x)
    inverse = _power(x, -exponent) if exponent in (-1, -2) else None
    return None if inverse is None else apply(Op.DIV, const(1, x.type), inverse)


# ---- makers of rules -----------------------------------------------------------------------------------------------


def _elementwise(
    node: Node,
    operands: Sequence[Any],
    compute: Callable[[list[Expression]], Expression | None],
    type: ScalarType | Sequence[ScalarType] | None = None,
    heavy: bool = False,
) -> Rule | None:
    """A rule over the result's shape. Operands are nodes or numbers, cast to `type` (each to its own, or all to the
    result's), and broadcast."""
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None:
        return None
    types = list(type) if isinstance(type, Sequence) else [type or own] * len(operands)
    space = shape_of_value(value)
    if any(isinstance(item, Node) and not isinstance(item.meta.get("val"), Tensor) for item in operands):
        return None  # a symbolic size as a number
    uses = tuple(
        Use(item, right_aligned(shape_of_value(item.meta["val"]), space)) for item in operands if isinstance(item, Node)
    )

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        left = list(values)
        filled = [
            cast(left.pop(0), kind) if isinstance(item, Node) else const(item, kind)
            for item, kind in zip(operands, types, strict=True)
        ]
        result = compute([keep("x", value) for value in filled])
        assert result is not None
        return cast(result, own)

    probe: list[Expression] = [Constant(1, kind.compute) for kind in types]
    try:
        if any(not isinstance(item, (Node, int, float, bool)) for item in operands) or compute(probe) is None:
            return None
    except TypeError:  # an operation between types that the kernel language does not have
        return None
    return Rule(space, uses, each(space), run, heavy=heavy)


def _unary(compute: Callable[[Expression], Expression], heavy: bool = False) -> Callable[[Node], Rule | None]:
    def make(node: Node) -> Rule | None:
        if node.kwargs or len(node.args) != 1:
            return None
        return _elementwise(node, node.args, lambda values: compute(values[0]), heavy=heavy)

    return make


def _float_unary(op: Op, heavy: bool = False) -> Callable[[Node], Rule | None]:
    """For floating results only: there is no integer exp, and integer rounding is the identity of another rule."""

    def make(node: Node) -> Rule | None:
        if not node.meta["val"].dtype.is_floating_point:
            return None
        return _unary(lambda x: apply(op, x), heavy)(node)

    return make


def _exp(node: Node) -> Rule | None:
    """Of what is left of x when its maximum is taken away, which is never above zero, by a shorter way."""
    x = node.args[0]
    falling = isinstance(x, Node) and x.target is aten.sub.Tensor and not x.kwargs and _is_maximum(x.args[1], x.args[0])
    return _float_unary(Op.EXP_FALLING if falling else Op.EXP)(node)


def _is_maximum(value: Any, x: Any) -> bool:
    """Whether the value is a maximum of x, NaN where x holds one."""
    return isinstance(value, Node) and value.target is aten.amax.default and value.args[0] is x


def _with_numbers(
    compute: Callable[..., Expression | None], names: Sequence[str], heavy: bool = False
) -> Callable[[Node], Rule | None]:
    """A unary operator with numbers beside its tensor, given in order or by `names`."""

    def make(node: Node) -> Rule | None:
        numbers = dict(zip(names, node.args[1:], strict=False)) | node.kwargs
        if set(numbers) - set(names) or any(isinstance(value, (Node, torch.SymInt)) for value in numbers.values()):
            return None
        if not node.meta["val"].dtype.is_floating_point and compute is not _clamp:
            return None
        return _elementwise(node, node.args[:1], lambda values: compute(values[0], **numbers), heavy=heavy)

    return make


def _arithmetic(op: Op) -> Callable[[Node], Rule | None]:
    def make(node: Node) -> Rule | None:
        alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
        if isinstance(alpha, (Node, torch.SymInt)):
            return None
        if node.meta["val"].dtype is torch.bool:
            return None
        if op is Op.DIV and not node.meta["val"].dtype.is_floating_point:
            return None
        return _elementwise(node, node.args[:2], lambda v: apply(op, v[0], times(v[1], alpha)))  # type: ignore[arg-type]

    return make


def _compare(op: Op) -> Callable[[Node], Rule | None]:
    def make(node: Node) -> Rule | None:
        left, right = (item.meta.get("val") if isinstance(item, Node) else item for item in node.args[:2])
        try:
            promoted = SCALARS.get(torch.result_type(left, right))  # type: ignore[arg-type]
        except (TypeError, RuntimeError):
            return None
        return None if promoted is None else _elementwise(node, node.args[:2], lambda v: apply(op, *v), promoted)

    return make


def _isnan(node: Node) -> Rule | None:
    source = node.args[0]
    own = SCALARS.get(source.meta["val"].dtype) if isinstance(source, Node) else None
    return None if own is None else _elementwise(node, [source], lambda v: apply(Op.NE, v[0], v[0]), own)


def _logical(op: Op) -> Callable[[Node], Rule | None]:
    return lambda node: _elementwise(node, node.args, lambda values: apply(op, *values), ScalarType.BOOL)


def _bitwise(op: Op) -> Callable[[Node], Rule | None]:
    return lambda node: _logical(op)(node) if node.meta["val"].dtype is torch.bool else None


def _where(node: Node) -> Rule | None:
    own = SCALARS.get(node.meta["val"].dtype)
    if own is None or len(node.args) != 3:
        return None
    types = (ScalarType.BOOL, own, own)
    return _elementwise(node, node.args, lambda v: Select(v[0], v[1], v[2]), types)


def _masked_fill(node: Node) -> Rule | None:
    own = SCALARS.get(node.meta["val"].dtype)
    if own is None:
        return None
    return _elementwise(node, node.args, lambda v: Select(v[1], v[2], v[0]), (own, ScalarType.BOOL, own))


def _prelu(node: Node) -> Rule | None:
    def compute(values: list[Expression]) -> Expression:
        x, slope = values
        return Select(apply(Op.GT, x, const(0, x.type)), x, apply(Op.MUL, x, slope))

    return _elementwise(node, node.args, compute)


def _convert(node: Node) -> Rule | None:
    """Conversions round where the user asked for it, even between two fused operators."""
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or set(node.kwargs) - {"dtype", "layout", "device", "pin_memory", "non_blocking", "memory_format"}:
        return None
    source = node.args[0]
    if not isinstance(source, Node) or source.meta["val"].dtype not in SCALARS:
        return None
    type = SCALARS[source.meta["val"].dtype]
    exact = type is own or (own is own.compute and type.compute is own)
    return _elementwise(node, [source], lambda v: v[0] if exact else Cast(own, v[0]), type)


def _filled(node: Node) -> Rule | None:
    """full, scalar_tensor, zeros: a number without operands."""
    places = {aten.full.default: 1, aten.full_like.default: 1, aten.scalar_tensor.default: 0}
    number = node.args[places[node.target]]  # type: ignore[index]
    return _elementwise(node, [number], lambda v: v[0]) if isinstance(number, (int, float, bool)) else None


def batch_norm(node: Node, source: Node) -> Rule | None:
    """(x - mean) * (weight / sqrt(var + eps)) + bias, channels on dimension 1."""
    x, weight, bias, mean, var, _, eps = source.args
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or value.ndim < 2:
        return None
    given = [item for item in (x, mean, var, weight, bias) if isinstance(item, Node)]
    space = shape_of_value(value)
    uses = tuple(Use(item, each(space) if item is x else ((1,),)) for item in given)

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        left = [cast(item, own) for item in values]
        element, center, spread = left[:3]
        scale: Expression = apply(Op.RSQRT, plus(spread, eps))  # type: ignore[arg-type]
        if isinstance(weight, Node):
            scale = apply(Op.MUL, scale, left[3])
        result = apply(Op.MUL, apply(Op.SUB, element, center), scale)
        return apply(Op.ADD, result, left[-1]) if isinstance(bias, Node) else result

    return Rule(space, uses, each(space), run)


# ---- views ------------------------------------------------------------------------------------------------------


def _renamed(node: Node, lies: tuple[tuple[int, ...], ...] | None) -> Rule:
    source = node.args[0]
    assert isinstance(source, Node)
    space = shape_of_value(node.meta["val"])
    return Rule(space, (Use(source, lies),), each(space), lambda values, *_: values[0], view=True)


def _permute(node: Node) -> Rule | None:
    order = [int(dim) % len(node.args[1]) for dim in node.args[1]]  # type: ignore[arg-type, union-attr]
    return _renamed(node, tuple((order.index(dim),) for dim in range(len(order))))


def _reshape(node: Node) -> Rule | None:
    return _renamed(node, None)


def _expand(node: Node) -> Rule | None:
    source = node.args[0]
    assert isinstance(source, Node)
    return _renamed(node, right_aligned(shape_of_value(source.meta["val"]), shape_of_value(node.meta["val"])))


ELEMENTWISE: dict[Any, Callable[[Node], Rule | None]] = {
    aten.add.Tensor: _arithmetic(Op.ADD),
    aten.add.Scalar: _arithmetic(Op.ADD),
    aten.sub.Tensor: _arithmetic(Op.SUB),
    aten.sub.Scalar: _arithmetic(Op.SUB),
    aten.mul.Tensor: _arithmetic(Op.MUL),
    aten.mul.Scalar: _arithmetic(Op.MUL),
    aten.div.Tensor: _arithmetic(Op.DIV),
    aten.div.Scalar: _arithmetic(Op.DIV),
    aten.maximum.default: _arithmetic(Op.MAXIMUM),
    aten.minimum.default: _arithmetic(Op.MINIMUM),
    aten.neg.default: _unary(lambda x: apply(Op.NEG, x)),
    aten.abs.default: _unary(lambda x: apply(Op.ABS, x)),
    aten.exp.default: _exp,
    aten.expm1.default: _float_unary(Op.EXPM1),
    aten.log.default: _float_unary(Op.LOG),
    aten.log1p.default: _float_unary(Op.LOG1P),
    aten.sqrt.default: _float_unary(Op.SQRT),
    aten.rsqrt.default: _float_unary(Op.RSQRT),
    aten.tanh.default: _float_unary(Op.TANH),
    aten.sigmoid.default: _float_unary(Op.SIGMOID),
    aten.erf.default: _float_unary(Op.ERF),
    aten.floor.default: _float_unary(Op.FLOOR),
    aten.ceil.default: _float_unary(Op.CEIL),
    aten.trunc.default: _float_unary(Op.TRUNC),
    aten.round.default: _float_unary(Op.ROUND),
    aten.sign.default: _with_numbers(_sign, ()),
    aten.isnan.default: _isnan,
    aten.reciprocal.default: _unary(lambda x: apply(Op.DIV, const(1, x.type), x)),
    aten.relu.default: _unary(_relu),
    aten.silu.default: _unary(lambda x: apply(Op.MUL, x, _sigmoid(x)), heavy=True),
    aten.mish.default: _unary(lambda x: apply(Op.MUL, x, apply(Op.TANH, _softplus(x))), heavy=True),
    aten.hardswish.default: _unary(lambda x: apply(Op.MUL, x, _hardsigmoid(x))),
    aten.hardsigmoid.default: _unary(_hardsigmoid),
    aten.gelu.default: _with_numbers(lambda x, approximate="none": _gelu(x, approximate), ("approximate",), True),
    aten.softplus.default: _with_numbers(_softplus, ("beta", "threshold"), heavy=True),
    aten.elu.default: _with_numbers(_elu, ("alpha", "scale", "input_scale")),
    aten.leaky_relu.default: _with_numbers(_leaky_relu, ("negative_slope",)),
    aten.hardtanh.default: _with_numbers(
        lambda x, min_val=-1, max_val=1: _clamp(x, min_val, max_val), ("min_val", "max_val")
    ),
    aten.clamp.default: _with_numbers(_clamp, ("min", "max")),
    aten.clamp_min.default: _with_numbers(lambda x, min: _clamp(x, min), ("min",)),
    aten.clamp_max.default: _with_numbers(lambda x, max: _clamp(x, None, max), ("max",)),
    aten.pow.Tensor_Scalar: _with_numbers(_power, ("exponent",)),
    aten.where.self: _where,
    aten.masked_fill.Scalar: _masked_fill,
    aten._prelu_kernel.default: _prelu,
    aten.lt.Tensor: _compare(Op.LT),
    aten.lt.Scalar: _compare(Op.LT),
    aten.le.Tensor: _compare(Op.LE),
    aten.le.Scalar: _compare(Op.LE),
    aten.gt.Tensor: _compare(Op.GT),
    aten.gt.Scalar: _compare(Op.GT),
    aten.ge.Tensor: _compare(Op.GE),
    aten.ge.Scalar: _compare(Op.GE),
    aten.eq.Tensor: _compare(Op.EQ),
    aten.eq.Scalar: _compare(Op.EQ),
    aten.ne.Tensor: _compare(Op.NE),
    aten.ne.Scalar: _compare(Op.NE),
    aten.logical_and.default: _logical(Op.AND),
    aten.logical_or.default: _logical(Op.OR),
    aten.logical_not.default: _logical(Op.NOT),
    aten.bitwise_and.Tensor: _bitwise(Op.AND),
    aten.bitwise_or.Tensor: _bitwise(Op.OR),
    aten.bitwise_not.default: _bitwise(Op.NOT),
    aten._to_copy.default: _convert,
    aten.clone.default: _convert,
    aten.full.default: _filled,
    aten.full_like.default: _filled,
    aten.scalar_tensor.default: _filled,
    aten.view.default: _reshape,
    aten.squeeze.dims: _reshape,
    aten.squeeze.dim: _reshape,
    aten.unsqueeze.default: _reshape,
    aten.permute.default: _permute,
    aten.expand.default: _expand,
}
