"""Which operators have rules (see lower_rule.py). Those without stay torch calls.

A rule works in a space: the result's shape for elementwise operators, the input's for reductions. It says on which
dimensions of that space each operand lies (so broadcasting, permutation and per-channel weights are all one thing),
which dimensions are reduced, and what is computed for each element.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.node import Node

from kernelwright.graph.lower_elementwise import ELEMENTWISE, batch_norm
from kernelwright.graph.lower_rows import ROWS, batch_statistics, group_norm, layer_norm
from kernelwright.graph.lower_rule import SCALARS, Rule

aten = torch.ops.aten

FIRST_OF: dict[Any, Callable[[Node, Node], Rule | None]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_group_norm.default: group_norm,
    aten._native_batch_norm_legit_no_training.default: batch_norm,
    aten._native_batch_norm_legit.no_stats: batch_statistics,
}
"""Operators with several results: the rule is that of the getitem that takes the first, if no other is taken."""
_RULES = ELEMENTWISE | ROWS


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
