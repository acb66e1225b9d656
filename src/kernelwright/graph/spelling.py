"""How operators are written in printed modules: as a person would, where that is exactly the same call.

A spelling is a function of a node and of `say`, which writes an argument; it returns an expression, or None where
this call has no ordinary spelling and `torch.ops.aten...` must do. Every spelling dispatches to the node's very
operator (or, for normalisations, to a wrapper whose first result is that of the operator), so that promotion of
dtypes is the same.
"""

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.node import expression, is_contiguous, shape_of, shown_outputs, tensor_of

aten = torch.ops.aten
Say = Callable[[Any], str]
Spelling = Callable[[Node, Say], str | None]
_SPELLINGS: dict[Any, Spelling] = {}

_UNARY = (
    "abs acos asin asinh atan ceil cos cosh erf erfc exp expm1 floor isinf isnan log log10 log1p log2 logical_not "
    "reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_INFIX = {
    "+": (aten.add.Tensor, aten.add.Scalar),
    "-": (aten.sub.Tensor, aten.sub.Scalar),
    "*": (aten.mul.Tensor, aten.mul.Scalar),
    "/": (aten.div.Tensor, aten.div.Scalar),
    "**": (aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar),
    "==": (aten.eq.Tensor, aten.eq.Scalar),
    "!=": (aten.ne.Tensor, aten.ne.Scalar),
    "<": (aten.lt.Tensor, aten.lt.Scalar),
    "<=": (aten.le.Tensor, aten.le.Scalar),
    ">": (aten.gt.Tensor, aten.gt.Scalar),
    ">=": (aten.ge.Tensor, aten.ge.Scalar),
    "&": (aten.bitwise_and.Tensor, aten.bitwise_and.Scalar),
    "|": (aten.bitwise_or.Tensor, aten.bitwise_or.Scalar),
    "^": (aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar),
}
METHODS = frozenset(
    {
        aten.view.default,
        aten.permute.default,
        aten.expand.default,
        aten.unsqueeze.default,
        aten.squeeze.dims,
        aten.select.int,
        aten.slice.Tensor,
        aten.clone.default,
    }
)
"""Operators written as methods or indexing of their first operand, so that they read well in a chain."""
_POSITIONAL = {
    aten.mm.default: "torch.mm",
    aten.bmm.default: "torch.bmm",
    aten.maximum.default: "torch.maximum",
    aten.minimum.default: "torch.minimum",
    aten.logical_and.default: "torch.logical_and",
    aten.logical_or.default: "torch.logical_or",
    aten.where.self: "torch.where",
    aten.cat.default: "torch.cat",
    aten.gather.default: "torch.gather",
    aten.index_select.default: "torch.index_select",
    aten.cumsum.default: "torch.cumsum",
    aten.tril.default: "torch.tril",
    aten.triu.default: "torch.triu",
    aten.flip.default: "torch.flip",
    aten.atan2.default: "torch.atan2",
    aten.mean.default: "torch.mean",
    aten.mean.dim: "torch.mean",
    aten.sum.dim_IntList: "torch.sum",
    aten.amax.default: "torch.amax",
    aten.amin.default: "torch.amin",
    aten.argmax.default: "torch.argmax",
    aten.argmin.default: "torch.argmin",
    aten.any.dim: "torch.any",
    aten.any.default: "torch.any",
    aten.clamp.default: "torch.clamp",
    aten.gelu.default: "F.gelu",
    aten.silu.default: "F.silu",
    aten.mish.default: "F.mish",
    aten.hardswish.default: "F.hardswish",
    aten.hardsigmoid.default: "F.hardsigmoid",
    aten.leaky_relu.default: "F.leaky_relu",
    aten.hardtanh.default: "F.hardtanh",
    aten.softplus.default: "F.softplus",
    aten.linear.default: "F.linear",
    aten.avg_pool2d.default: "F.avg_pool2d",
}


def spell(node: Node, say: Say) -> str:
    """The expression that computes `node`."""
    spelling = _SPELLINGS.get(node.target)
    return (spelling(node, say) if spelling else None) or literally(node, say)


def literally(node: Node, say: Say) -> str:
    """The call of the operator itself."""
    arguments = [say(value) for value in node.args]
    for name, value in node.kwargs.items():
        if not (name == "device" and torch.device(str(value)).type == "cpu") and value is not None:
            arguments.append(f"{name}={say(value)}")
    if node.target is operator.getitem:
        return f"{arguments[0]}[{arguments[1]}]"
    return f"torch.ops.{node.target}({', '.join(arguments)})"


def only_first_used(node: Node) -> bool:
    """Whether nobody takes any but the first of the node's results."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def spells(*targets: Any) -> Callable[[Spelling], Spelling]:
    """Registers a spelling for operators."""

    def register(spelling: Spelling) -> Spelling:
        for target in targets:
            _SPELLINGS[target] = spelling
        return spelling

    return register


def _call(name: str, *arguments: str, **named: str | None) -> str:
    parts = [*arguments, *(f"{key}={value}" for key, value in named.items() if value is not None)]
    return f"{name}({', '.join(parts)})"


def _plain_call(name: str) -> Spelling:
    def spelling(node: Node, say: Say) -> str | None:
        given = {key: say(value) for key, value in node.kwargs.items() if value is not None}
        return _call(name, *map(say, node.args), **given)

    return spelling


def _infix(sign: str) -> Spelling:
    def spelling(node: Node, say: Say) -> str | None:
        if node.kwargs or len(node.args) != 2:  # alpha=, rounding_mode=
            return None
        left, right = node.args
        return f"{say(left)} {sign} {say(right)}"

    return spelling


for _name in _UNARY.split():
    _SPELLINGS[getattr(aten, _name).default] = _plain_call(f"torch.{_name}")
for _sign, _targets in _INFIX.items():
    for _target in _targets:
        _SPELLINGS[_target] = _infix(_sign)
for _target, _spelled in _POSITIONAL.items():
    _SPELLINGS[_target] = _plain_call(_spelled)


@spells(aten.neg.default)
def _neg(node: Node, say: Say) -> str:
    return f"-{say(node.args[0])}"


@spells(aten.bitwise_not.default)
def _not(node: Node, say: Say) -> str:
    return f"~{say(node.args[0])}"


@spells(aten.elu.default)
def _elu(node: Node, say: Say) -> str | None:
    return _call("F.elu", *map(say, node.args)) if len(node.args) <= 2 else None


@spells(aten.pow.Scalar)
def _pow_of(node: Node, say: Say) -> str:
    return f"torch.pow({say(node.args[0])}, {say(node.args[1])})"


@spells(aten.div.Tensor_mode)
def _div(node: Node, say: Say) -> str:
    return _call("torch.div", *map(say, node.args), rounding_mode=say(node.kwargs["rounding_mode"]))


@spells(aten.matmul.default)
def _matmul(node: Node, say: Say) -> str:
    return f"{say(node.args[0])} @ {say(node.args[1])}"


@spells(aten.addmm.default, aten.baddbmm.default)
def _addmm(node: Node, say: Say) -> str:
    name = "torch.addmm" if node.target is aten.addmm.default else "torch.baddbmm"
    return _call(name, *map(say, node.args), **{key: say(value) for key, value in node.kwargs.items()})


@spells(aten.scaled_dot_product_attention.default)
def _attention(node: Node, say: Say) -> str | None:
    query, key, value, *rest = node.args
    mask, dropout, causal, *_ = (*rest, *(None, 0.0, False)[len(rest) :])
    return _call(
        "F.scaled_dot_product_attention",
        say(query),
        say(key),
        say(value),
        attn_mask=say(mask) if mask is not None else None,
        dropout_p=say(dropout) if dropout else None,
        is_causal="True" if causal else None,
        **{name: say(given) for name, given in node.kwargs.items() if given is not None and given is not False},
    )


@spells(aten._softmax.default, aten._log_softmax.default)
def _softmax(node: Node, say: Say) -> str | None:
    x, dim, widened = node.args
    name = "torch.softmax" if node.target is aten._softmax.default else "torch.log_softmax"
    return None if widened else _call(name, say(x), dim=say(dim))


@spells(aten.native_layer_norm.default)
def _layer_norm(node: Node, say: Say) -> str | None:
    if not only_first_used(node):
        return None
    x, shape, weight, bias, eps = node.args
    return _call("F.layer_norm", say(x), say(shape), say(weight), say(bias), say(eps))


@spells(aten.native_group_norm.default)
def _group_norm(node: Node, say: Say) -> str | None:
    if not only_first_used(node):
        return None
    x, weight, bias, _, _, _, groups, eps = node.args
    return _call("F.group_norm", say(x), say(groups), say(weight), say(bias), say(eps))


@spells(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(node: Node, say: Say) -> str | None:
    if not only_first_used(node):
        return None
    x, weight, bias, mean, variance, _, eps = node.args
    return _call("F.batch_norm", say(x), say(mean), say(variance), say(weight), say(bias), eps=say(eps))


@spells(operator.getitem)
def _getitem(node: Node, say: Say) -> str | None:
    source = node.args[0]
    if isinstance(source, Node) and spelled_as_first(source):
        return say(source)
    return None


_FIRSTS = frozenset(
    {
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
        aten._native_batch_norm_legit_no_training.default,
        aten.max_pool2d_with_indices.default,
    }
)


def spelled_as_first(node: Node) -> bool:
    """Whether the operator has several results and its spelling gives the first one alone."""
    return node.target in _FIRSTS and only_first_used(node)


@spells(aten.max_pool2d_with_indices.default)
def _max_pool(node: Node, say: Say) -> str | None:
    return _call("F.max_pool2d", *map(say, node.args)) if only_first_used(node) else None


@spells(aten._adaptive_avg_pool2d.default)
def _adaptive_pool(node: Node, say: Say) -> str:
    return _call("F.adaptive_avg_pool2d", *map(say, node.args))


@spells(aten.convolution.default)
def _convolution(node: Node, say: Say) -> str | None:
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    rank = len(stride)  # type: ignore[arg-type]
    if isinstance(x, Node) and len(shape_of(x)) != rank + 2:
        return None
    shared = {"stride": (stride, 1), "padding": (padding, 0), "dilation": (dilation, 1)}
    named = {name: _uniform(value, default, say) for name, (value, default) in shared.items()}
    if transposed:
        named["output_padding"] = _uniform(output_padding, 0, say)
    named["groups"] = None if groups == 1 else say(groups)
    name = f"F.conv_transpose{rank}d" if transposed else f"F.conv{rank}d"
    return _call(name, say(x), say(weight), say(bias) if bias is not None else "None", **named)


def _uniform(values: Any, default: int, say: Say) -> str | None:
    if all(value == values[0] for value in values):
        return None if values[0] == default else say(values[0])
    return say(values)


@spells(aten.embedding.default)
def _embedding(node: Node, say: Say) -> str | None:
    weight, index, *rest = node.args
    padding = rest[0] if rest else -1
    return _call("F.embedding", say(index), say(weight), padding_idx=None if padding == -1 else say(padding))


@spells(aten.var.correction)
def _var(node: Node, say: Say) -> str:
    named = {key: say(value) for key, value in node.kwargs.items() if value is not None}
    return _call("torch.var", *map(say, node.args), **named)


@spells(aten.constant_pad_nd.default)
def _pad(node: Node, say: Say) -> str:
    x, padding, *value = node.args
    return _call("F.pad", say(x), say(padding), value=say(value[0]) if value and value[0] != 0 else None)


@spells(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(node: Node, say: Say) -> str:
    x, mask, value = node.args
    return f"{say(x)}.masked_fill({say(mask)}, {say(value)})"


@spells(aten.view.default)
def _view(node: Node, say: Say) -> str:
    return f"{say(node.args[0])}.reshape({_listed(node.args[1], say)})"


@spells(aten.expand.default)
def _expand(node: Node, say: Say) -> str:
    return f"{say(node.args[0])}.expand({_listed(node.args[1], say)})"


@spells(aten.permute.default)
def _permute(node: Node, say: Say) -> str:
    x, order = node.args
    rank = len(shape_of(x))  # type: ignore[arg-type]
    order = [dim % rank for dim in order]  # type: ignore[union-attr, operator]
    moved = [dim for dim in range(rank) if order[dim] != dim]
    if len(moved) == 2:
        if rank == 2:
            return f"{say(x)}.t()"
        return f"{say(x)}.transpose({moved[0]}, {moved[1]})"
    return f"{say(x)}.permute({', '.join(map(str, order))})"


@spells(aten.unsqueeze.default)
def _unsqueeze(node: Node, say: Say) -> str:
    return f"{say(node.args[0])}.unsqueeze({say(node.args[1])})"


@spells(aten.squeeze.dims)
def _squeeze(node: Node, say: Say) -> str:
    x, dims = node.args
    return f"{say(x)}.squeeze({say(dims[0]) if len(dims) == 1 else say(tuple(dims))})"  # type: ignore[arg-type, index]


@spells(aten.select.int)
def _select(node: Node, say: Say) -> str:
    x, dim, index = node.args
    return f"{say(x)}[{_before(x, dim)}{say(index)}]"


@spells(aten.slice.Tensor)
def _slice(node: Node, say: Say) -> str:
    x, dim, start, end, step = (*node.args, *(None, 0, None, sys.maxsize, 1)[len(node.args) :])
    low = "" if start in (0, None) else say(start)
    high = "" if end in (None, sys.maxsize) else say(end)
    stride = "" if step == 1 else f":{say(step)}"
    return f"{say(x)}[{_before(x, dim)}{low}:{high}{stride}]"


def _before(x: Any, dim: Any) -> str:
    return ":, " * (dim % len(shape_of(x)))


@spells(aten.index.Tensor)
def _index(node: Node, say: Say) -> str:
    x, indices = node.args
    return f"{say(x)}[{', '.join(':' if item is None else say(item) for item in indices)}]"  # type: ignore[union-attr]


@spells(aten.clone.default)
def _clone(node: Node, say: Say) -> str | None:
    """A copy whose memory no caller can hold need not be one where it is contiguous already."""
    layout = node.kwargs.get("memory_format", torch.preserve_format)
    if layout is torch.contiguous_format and node not in shown_outputs(node.graph):
        return f"{say(node.args[0])}.contiguous()"
    return f"{say(node.args[0])}.clone({'' if layout is torch.preserve_format else f'memory_format={say(layout)}'})"


@spells(aten._to_copy.default)
def _to(node: Node, say: Say) -> str | None:
    changed = {key for key, value in node.kwargs.items() if value is not None} - {"device", "layout"}
    source = node.args[0]
    if changed != {"dtype"} or not isinstance(source, Node) or tensor_of(source).dtype == node.kwargs["dtype"]:
        return None
    return f"{say(source)}.to({say(node.kwargs['dtype'])})"


@spells(aten.full.default, aten.scalar_tensor.default, aten.arange.start_step, aten.full_like.default)
def _factory(node: Node, say: Say) -> str | None:
    name = str(node.target).split(".")[1]
    device = node.kwargs.get("device")
    if device is not None and torch.device(str(device)).type != "cpu":
        return None
    dtype = node.kwargs.get("dtype")
    if name != "full_like" and dtype is None:
        dtype = tensor_of(node).dtype
    if node.kwargs.get("memory_format") not in (None, torch.preserve_format):
        return None
    return _call(f"torch.{name}", *map(say, node.args), dtype=say(dtype) if dtype is not None else None)


def _listed(values: Any, say: Say) -> str:
    return ", ".join(map(say, values)) if len(values) else "()"


def number(value: Any) -> str:
    """A Python number as text that reads back as the same."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def allocation(value: Tensor, say: Say) -> str:
    """The expression that allocates a tensor like the fake `value`."""
    shape = f"({', '.join(map(say, value.shape))}{',' if value.dim() == 1 else ''})"
    if is_contiguous(value) or not all(isinstance(expression(size), int) for size in value.stride()):
        return f"torch.empty({shape}, dtype={value.dtype})"
    return f"torch.empty_strided({shape}, {tuple(value.stride())}, dtype={value.dtype})"
