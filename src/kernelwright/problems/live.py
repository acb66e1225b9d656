"""A module that lives in this process as a Problem: its text is printed from its graph."""

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from kernelwright.errors import CaptureError, ProblemError
from kernelwright.graph import Capture, agrees, capture, print_module
from kernelwright.problems.contract import leaf_names, spec_of
from kernelwright.problems.dialect import flatten_call
from kernelwright.problems.examine import complete
from kernelwright.problems.examined import key_of
from kernelwright.problems.speak import get_inputs_text
from kernelwright.problems.subject import Subject, autocast_region
from kernelwright.records import Numerics, Problem, Signature, unflatten

_AGREES = 1e-2
"""Largest relative error between the user's module and the text printed for it, in the narrowest type there is."""


def from_module(
    model: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    training: bool = False,
    autocast: str | None = None,
) -> tuple[Problem, dict[str, torch.Tensor]]:
    """The problem that `model(*args, **kwargs)` is, and the model's weights by their names in the state_dict.

    Values of `args` show the distribution that cases draw from: constants stay constant, numbers keep mean and
    deviation. The model is left in the mode it was in. Raises CaptureError for a module that has no graph, and
    ProblemError for one that cannot be judged (see `load`).
    """
    name = name or type(model).__name__
    call = {"args": list(args), "kwargs": dict(kwargs or {})}
    leaves, template = flatten_call(call)
    leaves = [leaf.detach() for leaf in leaves]
    _refuse_devices(model, name)
    weights = {key: value.detach() for key, value in model.state_dict().items()}
    numerics = Numerics(training=training, autocast=autocast)
    with _borrowed(model, training), torch.no_grad():
        taken = capture(model, call["args"], call["kwargs"], autocast=autocast)
        names = leaf_names(model, call, name)
        tensors = tuple(spec_of(one, index, leaves) for index, one in enumerate(names))
        tensors = tuple(
            replace(spec, low=0, high=rows - 1) if (rows := _table_rows(taken, index)) else spec
            for index, spec in enumerate(tensors)
        )
        signature = Signature(tensors, template)
        problem = Problem(
            name=name,
            source=_text(taken, leaves, signature),
            signature=signature,
            numerics=numerics,
            readable=_source_of(type(model)),
            origin=f"module:{type(model).__name__}",
        )
        subject = Subject(problem, weights)
        printed = subject.build()
        rebuilt = unflatten(template, [leaf.clone() for leaf in leaves])
        with autocast_region(problem):
            error = agrees(taken, model, rebuilt["args"], rebuilt["kwargs"])
        _check_printed(subject, printed, model, leaves, error)
    return complete(subject, printed, leaves, [None] * len(leaves), key_of(problem, weights, leaves)), weights


def _refuse_devices(model: nn.Module, name: str) -> None:
    held = {tensor.device.type for tensor in (*model.parameters(), *model.buffers())}
    if held - {"cpu"}:
        raise ProblemError(f"{name} holds tensors on {', '.join(sorted(held - {'cpu'}))}; move it to the CPU first")


@contextmanager
def _borrowed(model: nn.Module, training: bool) -> Iterator[None]:
    """The model in train or eval mode; afterwards each of its modules is in its own mode, each buffer as it was."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


def _text(taken: Capture, leaves: Sequence[torch.Tensor], signature: Signature) -> str:
    """The whole text in the dialect. Named arguments of `forward` are passed by name where the call names any."""
    call = json.loads(signature.arguments)["dict"]
    if call["kwargs"]["dict"]:
        if len(taken.parameter_names) != len(call["args"]):
            raise CaptureError("the call mixes *args with keywords; pass all arguments by keyword")
        named = dict(zip(taken.parameter_names, call["args"], strict=True)) | call["kwargs"]["dict"]
        inputs = get_inputs_text({"dict": named}, leaves, signature.tensors)
    else:
        inputs = get_inputs_text(call["args"], leaves, signature.tensors)
    text = print_module(taken, entry="Model", base=None)
    return f"{text}\n\ndef get_init_inputs():\n    return []\n\n\n{inputs}"


def _source_of(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):  # defined in a console, or in C
        return ""


def _table_rows(taken: Capture, index: int) -> int:
    """Rows of the table that the leaf's integers look up, so that all of them are legal values; 0 for none."""
    rows = 0
    places = taken.graph.graph.find_nodes(op="placeholder")
    for place, position in zip(places, taken.positions, strict=True):
        if position != index:
            continue
        reached = [place]
        for node in reached:
            for user in node.users:
                if user.target is torch.ops.aten.embedding.default and user.args[1] is node:
                    table: Any = user.args[0]
                    size = int(table.meta["val"].shape[0])
                    rows = min(rows, size) if rows else size
                elif user.target in _SAME_VALUES and user not in reached:
                    reached.append(user)
    return rows


_SAME_VALUES = (
    torch.ops.aten.view.default,
    torch.ops.aten.expand.default,
    torch.ops.aten.clone.default,
    torch.ops.aten._to_copy.default,
    torch.ops.aten.slice.Tensor,
    torch.ops.aten.unsqueeze.default,
)


def _check_printed(
    subject: Subject, printed: nn.Module, model: nn.Module, leaves: Sequence[torch.Tensor], captured_error: float
) -> None:
    """Raises CaptureError where graph or text computes something else than the user's module, and ProblemError for
    a module that draws random numbers."""
    name = subject.problem.name
    wanted = subject.outputs(model, [leaf.clone() for leaf in leaves])
    subject.refuse_random(wanted, subject.outputs(model, [leaf.clone() for leaf in leaves], seed=2))
    if captured_error > _AGREES:
        raise CaptureError(f"the graph of {name} computes something else: its relative error is {captured_error:.1g}")
    got = subject.outputs(printed, [leaf.clone() for leaf in leaves])
    for index, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one.dtype == other.dtype and torch.equal(one, other):
            continue
        size = float(other.double().abs().nan_to_num(0, 0, 0).max()) if other.numel() else 0.0
        if one.shape != other.shape or one.dtype != other.dtype:
            raise CaptureError(f"the text printed for {name} returns another shape or type for result {index}")
        if not torch.allclose(one.double(), other.double(), rtol=0, atol=_AGREES * size, equal_nan=True):
            raise CaptureError(f"the text printed for {name} computes something else for result {index}")
