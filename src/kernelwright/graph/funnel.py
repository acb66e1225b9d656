"""The funnel: a function of tensors becomes a functional core-ATen graph, whichever road it came by.

A module and the graph that dynamo hands to a backend both pass through `trace`, as functions of fake tensors that
require no gradient, so that every decomposition is decided in one place (docs/design/identity.md).

A few operators that core ATen would take apart stay whole, because they are faster whole and because text that
calls them reads like the user's: see `WHOLE` and `COMPOSITES`.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._decomp import core_aten_decompositions
from torch._functorch.aot_autograd import aot_export_module
from torch._ops import OpOverload

aten = torch.ops.aten

WHOLE: tuple[OpOverload, ...] = (
    aten.silu.default,
    aten.mish.default,
    aten.hardswish.default,
    aten.hardsigmoid.default,
    aten.softplus.default,
    aten.baddbmm.default,
    aten._prelu_kernel.default,
    aten.upsample_nearest2d.vec,
    aten.upsample_nearest2d.default,
    aten.upsample_bilinear2d.vec,
    aten.upsample_bilinear2d.default,
    aten.reflection_pad1d.default,
    aten.reflection_pad2d.default,
    aten.replication_pad2d.default,
)
"""Left out of the table of decompositions. Each is one kernel of torch."""

COMPOSITES: dict[OpOverload, str] = {
    aten.linear.default: "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    aten.matmul.default: "matmul(Tensor self, Tensor other) -> Tensor",
    aten.scaled_dot_product_attention.default: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, "
    "bool enable_gqa=False) -> Tensor",
}
"""Composite operators, which autograd's dispatch takes apart before any table is asked.

While a graph is traced each is sent to an opaque twin of ours; afterwards the twin is named back. The twin's fake
kernel is the operator's own, so that shapes and strides are those of the kernel that torch would choose.
"""

_LIBRARY = torch.library.Library("kernelwright", "DEF")
_TWINS: dict[OpOverload, OpOverload] = {}
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_lock = threading.RLock()
_tracing = threading.local()


def _own_kernel(operator: OpOverload, *args: Any, **kwargs: Any) -> Tensor:
    return operator._op_dk(_COMPOSITE, *args, **kwargs)


for _operator, _schema in COMPOSITES.items():
    _name = _schema.partition("(")[0]
    _LIBRARY.define(_schema)
    torch.library.register_fake(f"kernelwright::{_name}", functools.partial(_own_kernel, _operator), lib=_LIBRARY)
    _TWINS[_operator] = getattr(torch.ops.kernelwright, _name).default
_ORIGINALS = {twin: operator for operator, twin in _TWINS.items()}


def trace(function: Callable[..., tuple[Tensor, ...]], fakes: Sequence[Any]) -> tuple[fx.GraphModule, list[str]]:
    """The graph of `function` at the fake inputs (tensors and symbolic sizes), and the placeholders it mutates.

    The graph's placeholders are the fakes in order. Its outputs are the new values of the mutated placeholders, in
    the order of the names returned, and then the function's own. `meta["val"]` is on every node.
    """
    table = {
        key: value
        for key, value in core_aten_decompositions().items()
        if isinstance(key, OpOverload) and key not in WHOLE
    }
    with _lock, torch.no_grad(), _composites_whole():
        graph, signature = aot_export_module(_Parameterless(function), fakes, trace_joint=False, decompositions=table)
    assert isinstance(graph, fx.GraphModule)
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in _ORIGINALS:
            node.target = _ORIGINALS[node.target]
    return graph, list(signature.user_inputs_to_mutate.values())


class _Parameterless(nn.Module):
    """aot_export_module wants a module, and lifts what parameters it finds: this one has none."""

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self._called = (function,)  # in a tuple: a module would be registered, and its parameters lifted

    def forward(self, *args: Any) -> tuple[Tensor, ...]:
        return self._called[0](*args)


@contextmanager
def _composites_whole() -> Iterator[None]:
    saved = {operator: dict(operator.py_kernels) for operator in COMPOSITES}
    for operator in COMPOSITES:
        operator.py_kernels.pop(_COMPOSITE, None)
        operator.py_impl(_COMPOSITE)(functools.partial(_divert, operator))
        operator._dispatch_cache.clear()
    _tracing.active = True
    try:
        yield
    finally:
        _tracing.active = False
        for operator, kernels in saved.items():
            operator.py_kernels.clear()
            operator.py_kernels.update(kernels)
            operator._dispatch_cache.clear()


def _divert(operator: OpOverload, *args: Any, **kwargs: Any) -> Tensor:
    if getattr(_tracing, "active", False):
        return _TWINS[operator](*args, **kwargs)
    return _own_kernel(operator, *args, **kwargs)  # another thread compiles something of its own meanwhile
