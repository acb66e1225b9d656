"""What each fusible operator computes, as scalar expressions: one Rule for a node.

A rule works in a space: the result's shape for elementwise operators, the input's for reductions. It says on which
dimensions of that space each operand lies (so broadcasting, permutation and per-channel weights are all one thing),
which dimensions are reduced, and what is computed for each element. Operators without a rule stay torch calls.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.node import expression
from kernelwright.loops import Apply, Cast, Constant, Expression, Op, Reduction, ScalarType, Select

aten = torch.ops.aten

SCALARS = {
    torch.bool: ScalarType.BOOL,
    torch.int32: ScalarType.INT32,
    torch.int64: ScalarType.INT64,
    torch.float16: ScalarType.FLOAT16,
    torch.bfloat16: ScalarType.BFLOAT16,
    torch.float32: ScalarType.FLOAT32,
    torch.float64: ScalarType.FLOAT64,
}

Reduce = Callable[[str, Expression, Reduction], Expression]
"""Adds a reduction step (a name hint, the value, how) and gives its result."""
Keep = Callable[[str, Expression], Expression]
"""Adds a step for a value that is used more than once and gives it back by name."""


@dataclass(frozen=True)
class Use:
    """A tensor operand of a rule."""

    node: Node
    lies: tuple[tuple[int, ...], ...] | None
    """For each of its dimensions the dimensions of the space it lies on, outer first; None: it holds the space's
    elements in another shape."""


@dataclass(frozen=True)
class Rule:
    """What one node computes. See the module."""

    space: tuple[Any, ...]
    uses: tuple[Use, ...]
    result: tuple[tuple[int, ...], ...] | None
    """The same for the result; a reduced dimension that is kept lies on none."""
    compute: Callable[[Sequence[Expression], Reduce, Keep], Expression]
    """The result of one element from the operands' elements, in the order of `uses`."""
    reduced: tuple[int, ...] = ()
    view: bool = False
    """Whether it only renames elements."""
    heavy: bool = False
    """Whether the node alone is worth a kernel: torch's own makes several passes or does not vectorise well."""


def rule_of(node: Node) -> Rule | None:
    """The node's rule; None where it stays a torch call."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
        return None
    if node.target is operator.getitem:
        source, place = node.args
        if not isinstance(source, Node) or place != 0 or source.target not in FIRST_OF:
            return None
        if len(source.users) > 1:
            return None
        return _checked(node, FIRST_OF[source.target](node, source))
    make = _RULES.get(node.target)
    return None if make is None else _checked(node, make(node))


def _checked(node: Node, rule: Rule | None) -> Rule | None:
    """The rule, if all its tensors are of types that kernels know and lie in ordinary memory."""
    if rule is None:
        return None
    for tensor in (node.meta["val"], *(use.node.meta.get("val") for use in rule.uses)):
        if not isinstance(tensor, Tensor) or tensor.dtype not in SCALARS or tensor.layout is not torch.strided:
            return None
        if tensor.device.type != "cpu":
            return None
    return rule


# ---- expressions ------------------------------------------------------------------------------------------------


def scalar_of(tensor: Tensor) -> ScalarType:
    return SCALARS[tensor.dtype]


def cast(value: Expression, to: ScalarType) -> Expression:
    """The value in the compute type of `to`."""
    return value if value.type is to.compute else Cast(to.compute, value)


def const(value: float | int | bool, type: ScalarType) -> Constant:
    return Constant(value, type.compute)


def _op(op: Op, *operands: Expression) -> Apply:
    return Apply(op, operands)


def _times(value: Expression, factor: float) -> Expression:
    return value if factor == 1 else _op(Op.MUL, value, const(factor, value.type))


def _plus(value: Expression, term: float) -> Expression:
    return value if term == 0 else _op(Op.ADD, value, const(term, value.type))


def _atleast(value: Expression, low: Expression) -> Expression:
    """max(value, low), NaN where the value is."""
    return Select(_op(Op.LT, value, low), low, value)


def _atmost(value: Expression, high: Expression) -> Expression:
    return Select(_op(Op.GT, value, high), high, value)


def _relu(x: Expression) -> Expression:
    return _atleast(x, const(0, x.type))


def _sigmoid(x: Expression) -> Expression:
    return _op(Op.SIGMOID, x)


def _gelu(x: Expression, approximate: str) -> Expression:
    half = _times(x, 0.5)
    if approximate == "tanh":
        cube = _op(Op.MUL, _op(Op.MUL, x, x), x)
        inside = _times(_op(Op.ADD, x, _times(cube, 0.044715)), 0.7978845608028654)
        return _op(Op.MUL, half, _plus(_op(Op.TANH, inside), 1))
    return _op(Op.MUL, half, _plus(_op(Op.ERF, _times(x, 0.7071067811865476)), 1))


def _softplus(x: Expression, beta: float = 1, threshold: float = 20) -> Expression:
    scaled = _times(x, beta)
    soft = _times(_op(Op.LOG1P, _op(Op.EXP, scaled)), 1 / beta)
    return Select(_op(Op.GT, scaled, const(threshold, x.type)), x, soft)


def _hardsigmoid(x: Expression) -> Expression:
    return _times(_atmost(_relu(_plus(x, 3)), const(6, x.type)), 1 / 6)


def _elu(x: Expression, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Expression:
    low = _times(_op(Op.EXPM1, _times(x, input_scale)), alpha * scale)
    return Select(_op(Op.LE, x, const(0, x.type)), low, _times(x, scale))


def _leaky_relu(x: Expression, negative_slope: float = 0.01) -> Expression:
    return Select(_op(Op.GT, x, const(0, x.type)), x, _times(x, negative_slope))


def _clamp(x: Expression, min: float | None = None, max: float | None = None) -> Expression:
    if min is not None:
        x = _atleast(x, const(min, x.type))
    return x if max is None else _atmost(x, const(max, x.type))


def _power(x: Expression, exponent: float) -> Expression | None:
    """x to a constant power that is a few multiplications and roots; None for others."""
    if exponent == 0:
        return const(1, x.type)
    if exponent in (1, 2, 3, 4):
        square = _op(Op.MUL, x, x)
        return {1: x, 2: square, 3: _op(Op.MUL, square, x), 4: _op(Op.MUL, square, square)}[int(exponent)]
    if not x.type.floating:
        return None
    if exponent == 0.5:
        return _op(Op.SQRT, x)
    if exponent == -0.5:
        return _op(Op.RSQRT, x)
    inverse = _power(x, -exponent) if exponent in (-1, -2) else None
    return None if inverse is None else _op(Op.DIV, const(1, x.type), inverse)


# ---- elementwise ------------------------------------------------------------------------------------------------


def _shape(value: Any) -> tuple[Any, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _same(space: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Every dimension on its own."""
    return tuple((dim,) for dim in range(len(space)))


def _right_aligned(shape: Sequence[Any], space: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """As broadcasting lays a tensor: on the last dimensions."""
    return _same(space)[len(space) - len(shape) :]


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
    space = _shape(value)
    if any(isinstance(item, Node) and not isinstance(item.meta.get("val"), Tensor) for item in operands):
        return None  # a symbolic size as a number
    uses = tuple(
        Use(item, _right_aligned(_shape(item.meta["val"]), space)) for item in operands if isinstance(item, Node)
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
    return Rule(space, uses, _same(space), run, heavy=heavy)


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
        return _unary(lambda x: _op(op, x), heavy)(node)

    return make


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
        return _elementwise(node, node.args[:2], lambda v: _op(op, v[0], _times(v[1], alpha)))  # type: ignore[arg-type]

    return make


def _compare(op: Op) -> Callable[[Node], Rule | None]:
    def make(node: Node) -> Rule | None:
        left, right = (item.meta.get("val") if isinstance(item, Node) else item for item in node.args[:2])
        try:
            promoted = SCALARS.get(torch.result_type(left, right))  # type: ignore[arg-type]
        except (TypeError, RuntimeError):
            return None
        return None if promoted is None else _elementwise(node, node.args[:2], lambda v: _op(op, *v), promoted)

    return make


def _logical(op: Op) -> Callable[[Node], Rule | None]:
    return lambda node: _elementwise(node, node.args, lambda values: _op(op, *values), ScalarType.BOOL)


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
        return Select(_op(Op.GT, x, const(0, x.type)), x, _op(Op.MUL, x, slope))

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


def _batch_norm(node: Node, source: Node) -> Rule | None:
    """(x - mean) * (weight / sqrt(var + eps)) + bias, channels on dimension 1."""
    x, weight, bias, mean, var, _, eps = source.args
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or value.ndim < 2:
        return None
    given = [item for item in (x, mean, var, weight, bias) if isinstance(item, Node)]
    space = _shape(value)
    uses = tuple(Use(item, _same(space) if item is x else ((1,),)) for item in given)

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        left = [cast(item, own) for item in values]
        element, center, spread = left[:3]
        scale: Expression = _op(Op.RSQRT, _plus(spread, eps))  # type: ignore[arg-type]
        if isinstance(weight, Node):
            scale = _op(Op.MUL, scale, left[3])
        result = _op(Op.MUL, _op(Op.SUB, element, center), scale)
        return _op(Op.ADD, result, left[-1]) if isinstance(bias, Node) else result

    return Rule(space, uses, _same(space), run)


# ---- views ------------------------------------------------------------------------------------------------------


def _renamed(node: Node, lies: tuple[tuple[int, ...], ...] | None) -> Rule:
    source = node.args[0]
    assert isinstance(source, Node)
    space = _shape(node.meta["val"])
    return Rule(space, (Use(source, lies),), _same(space), lambda values, *_: values[0], view=True)


def _permute(node: Node) -> Rule | None:
    order = [int(dim) % len(node.args[1]) for dim in node.args[1]]  # type: ignore[arg-type, union-attr]
    return _renamed(node, tuple((order.index(dim),) for dim in range(len(order))))


def _reshape(node: Node) -> Rule | None:
    return _renamed(node, None)


def _expand(node: Node) -> Rule | None:
    source = node.args[0]
    assert isinstance(source, Node)
    return _renamed(node, _right_aligned(_shape(source.meta["val"]), _shape(node.meta["val"])))


# ---- reductions -------------------------------------------------------------------------------------------------


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


def _reduced_result(ndim: int, dims: Sequence[int], kept: bool) -> tuple[tuple[int, ...], ...]:
    return tuple(() if dim in dims else (dim,) for dim in range(ndim) if kept or dim not in dims)


def _argument(node: Node, place: int, name: str, default: Any) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _reducing(
    compute: Callable[[Expression, Reduce, Keep, int], Expression | None],
) -> Callable[[Node], Rule | None]:
    """A rule for operators of the form op(x, dims, keepdim). `compute` gets the number of reduced elements as well."""

    def make(node: Node) -> Rule | None:
        source = node.args[0]
        if not isinstance(source, Node) or not isinstance(source.meta.get("val"), Tensor):
            return None
        space = _shape(source.meta["val"])
        own = SCALARS.get(node.meta["val"].dtype)
        dims = _dims(_argument(node, 1, "dim", None), len(space))
        count = _count(space, dims)
        if own is None or not dims or not count:
            return None
        keep_dims = len(_shape(node.meta["val"])) == len(space)
        result = _reduced_result(len(space), dims, keep_dims)

        def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
            value = compute(cast(values[0], own), reduce, keep, count)
            assert value is not None
            return cast(value, own)

        return Rule(space, (Use(source, _same(space)),), result, run, reduced=dims)

    return make


def _variance(x: Expression, reduce: Reduce, keep: Keep, count: int, correction: float) -> Expression:
    """Two passes: the mean, then the squares of what is left. Nothing cancels."""
    mean = keep("mean", _times(reduce("sum", x, Reduction.SUM), 1 / count))
    left = keep("centered", _op(Op.SUB, x, mean))
    total = reduce("squares", _op(Op.MUL, left, left), Reduction.SUM)
    return _times(total, 1 / (count - correction))


def _var(node: Node) -> Rule | None:
    correction = node.kwargs.get("correction", 1)
    correction = 1 if correction is None else correction
    if not isinstance(correction, (int, float)) or not node.meta["val"].dtype.is_floating_point:
        return None
    rule = _reducing(lambda x, reduce, keep, count: _variance(x, reduce, keep, count, correction))(node)
    if rule is None or (_count(rule.space, rule.reduced) or 0) <= correction:
        return None
    return rule


def _mean(node: Node) -> Rule | None:
    if not node.meta["val"].dtype.is_floating_point:
        return None
    return _reducing(lambda x, reduce, keep, count: _times(reduce("sum", x, Reduction.SUM), 1 / count))(node)


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
    dims = _argument(node, 2, "dim", None)
    source = node.args[0]
    if not isinstance(source, Node) or not node.meta["val"].dtype.is_floating_point:
        return None
    space = _shape(source.meta["val"])
    reduced = _dims(dims, len(space))
    kept = len(_shape(node.meta["val"])) == len(space)
    result = _reduced_result(len(space), reduced, kept)
    own = SCALARS.get(node.meta["val"].dtype)
    if own is None or not _count(space, reduced) or not reduced:
        return None

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        x = cast(values[0], own)
        return _op(Op.SQRT, reduce("squares", _op(Op.MUL, x, x), Reduction.SUM))

    return Rule(space, (Use(source, _same(space)),), result, run, reduced=reduced)


def _softmax(node: Node) -> Rule | None:
    return _softmax_like(node, logarithm=False)


def _log_softmax(node: Node) -> Rule | None:
    return _softmax_like(node, logarithm=True)


def _softmax_like(node: Node, logarithm: bool) -> Rule | None:
    source, dim = node.args[:2]
    own = SCALARS.get(node.meta["val"].dtype)
    if own is None or not own.floating or not isinstance(source, Node):
        return None
    space = _shape(node.meta["val"])
    dims = _dims(dim, len(space))
    if not dims or not _count(space, dims):
        return None

    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        x = keep("x", cast(values[0], own))
        centered = keep("centered", _op(Op.SUB, x, reduce("largest", x, Reduction.MAXIMUM)))
        e = keep("e", _op(Op.EXP, centered))
        total = reduce("total", e, Reduction.SUM)
        if logarithm:
            return _op(Op.SUB, centered, keep("log_total", _op(Op.LOG, total)))
        return _op(Op.MUL, e, keep("inverse", _op(Op.DIV, const(1, own), total)))

    uses = (Use(source, _same(space)),)
    return Rule(space, uses, _same(space), run, reduced=dims, heavy=True)


def _normalised(
    own: ScalarType, count: int, eps: float, weight: bool, bias: bool
) -> Callable[[Sequence[Expression], Reduce, Keep], Expression]:
    def run(values: Sequence[Expression], reduce: Reduce, keep: Keep) -> Expression:
        given = [cast(value, own) for value in values]
        x = keep("x", given[0])
        mean = keep("mean", _times(reduce("sum", x, Reduction.SUM), 1 / count))
        left = keep("centered", _op(Op.SUB, x, mean))
        squares = reduce("squares", _op(Op.MUL, left, left), Reduction.SUM)
        result: Expression = _op(Op.MUL, left, keep("scale", _op(Op.RSQRT, _plus(_times(squares, 1 / count), eps))))
        if weight:
            result = _op(Op.MUL, result, given[1])
        return _op(Op.ADD, result, given[-1]) if bias else result

    return run


def _layer_norm(node: Node, source: Node) -> Rule | None:
    x, normalized, weight, bias, eps = source.args
    own = SCALARS.get(node.meta["val"].dtype)
    space = _shape(node.meta["val"])
    dims = tuple(range(len(space) - len(normalized), len(space)))  # type: ignore[arg-type]
    count = _count(space, dims)
    if own is None or not isinstance(x, Node) or not count:
        return None
    given = [item for item in (x, weight, bias) if isinstance(item, Node)]
    uses = tuple(Use(item, _right_aligned(_shape(item.meta["val"]), space)) for item in given)
    run = _normalised(own, count, float(eps), isinstance(weight, Node), isinstance(bias, Node))  # type: ignore[arg-type]
    return Rule(space, uses, _same(space), run, reduced=dims, heavy=True)


def _group_norm(node: Node, source: Node) -> Rule | None:
    """In the space (N, groups, channels of a group, positions...); x and the result have another shape of it."""
    x, weight, bias, _, channels, _, groups, eps = source.args
    value = node.meta["val"]
    own = SCALARS.get(value.dtype)
    if own is None or not isinstance(x, Node) or not isinstance(channels, int) or not isinstance(groups, int):
        return None
    shape = _shape(value)
    space = (shape[0], groups, channels // groups, *shape[2:])
    dims = tuple(range(2, len(space)))
    count = _count(space, dims)
    if not count:
        return None
    given = [item for item in (x, weight, bias) if isinstance(item, Node)]
    uses = tuple(Use(item, None if item is x else ((1, 2),)) for item in given)
    run = _normalised(own, count, float(eps), isinstance(weight, Node), isinstance(bias, Node))  # type: ignore[arg-type]
    return Rule(space, uses, None, run, reduced=dims, heavy=True)


_RULES: dict[Any, Callable[[Node], Rule | None]] = {
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
    aten.neg.default: _unary(lambda x: _op(Op.NEG, x)),
    aten.abs.default: _unary(lambda x: _op(Op.ABS, x)),
    aten.exp.default: _float_unary(Op.EXP),
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
    aten.reciprocal.default: _unary(lambda x: _op(Op.DIV, const(1, x.type), x)),
    aten.relu.default: _unary(_relu),
    aten.silu.default: _unary(lambda x: _op(Op.MUL, x, _sigmoid(x)), heavy=True),
    aten.mish.default: _unary(lambda x: _op(Op.MUL, x, _op(Op.TANH, _softplus(x))), heavy=True),
    aten.hardswish.default: _unary(lambda x: _op(Op.MUL, x, _hardsigmoid(x))),
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
    aten.sum.dim_IntList: _sum,
    aten.mean.dim: _mean,
    aten.amax.default: _extreme(Reduction.MAXIMUM),
    aten.amin.default: _extreme(Reduction.MINIMUM),
    aten.var.correction: _var,
    aten.linalg_vector_norm.default: _vector_norm,
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
}

FIRST_OF: dict[Any, Callable[[Node, Node], Rule | None]] = {
    aten.native_layer_norm.default: _layer_norm,
    aten.native_group_norm.default: _group_norm,
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
}
