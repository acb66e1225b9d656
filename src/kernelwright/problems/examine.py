"""Runs a reference once and writes down its contract: the tensors it takes, their bounds, its graph."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from kernelwright.errors import CaptureError, ProblemError
from kernelwright.graph import agrees, capture_problem, identify
from kernelwright.problems import examined
from kernelwright.problems.contract import leaf_names, opened, spec_of
from kernelwright.problems.dialect import call_inputs
from kernelwright.problems.drawing import drawn
from kernelwright.problems.footprint import refuse_too_large
from kernelwright.problems.inputs import arguments
from kernelwright.problems.subject import Subject, autocast_region
from kernelwright.records import Case, Problem, Signature, TensorSpec, unflatten

Bounds = tuple[float, float] | None


def examine(problem: Problem, specs: Sequence[TensorSpec] = ()) -> Problem:
    """`problem` with its signature, bounds and region. `specs` open sizes that `get_inputs` leaves fixed.

    Raises ProblemError for a reference that is too large for this machine, raises, returns no tensors, draws random
    numbers, keeps state or changes its inputs.
    """
    subject = Subject(problem)
    subject.module  # noqa: B018  what the text raises comes first
    refuse_too_large(problem)
    model = subject.build()
    with subject.failing("get_inputs"), drawn(0) as drawing, torch.no_grad():
        leaves, template, call = call_inputs(subject.module)
    bounds = [drawing.bounds(leaf) for leaf in leaves]
    names = leaf_names(model, call, problem.name)
    tensors = tuple(spec_of(name, index, leaves, bounds[index]) for index, name in enumerate(names))
    problem = replace(problem, signature=Signature(opened(tensors, specs), template))
    return complete(Subject(problem), model, leaves, bounds)


def complete(
    subject: Subject, model: nn.Module, leaves: Sequence[torch.Tensor], bounds: Sequence[Bounds], key: str = ""
) -> Problem:
    """The subject's problem, whose signature is known but for bounds, with bounds and region.

    `bounds` are the intervals that the leaves were drawn from, where that is known. What was found before under `key`
    (`examined.key_of`) is taken, and what is found now kept. Raises ProblemError.
    """
    problem = subject.problem
    known = examined.recalled(problem, key) if key else None
    if known is not None:
        return known
    finite = all(bool(leaf.isfinite().all()) for leaf in subject.refuse_unrepeatable(model, leaves))
    if finite:
        problem = replace(problem, signature=_bounded(subject, model, leaves, bounds))
    else:
        warnings.warn(f"{problem.name} gives NaN or Inf for its own inputs", stacklevel=4)
    problem = _identified(problem, model, leaves)
    if key and finite:  # what is not is to be said again
        examined.keep(problem, key)
    return problem


def _bounded(subject: Subject, model: nn.Module, leaves: Sequence[torch.Tensor], bounds: Sequence[Bounds]) -> Signature:
    """The signature with bounds on each floating leaf beyond whose own interval the reference is not finite."""
    tensors = list(subject.problem.signature.tensors)
    signed = arguments(subject.problem, Case("signed"))
    for index, spec in enumerate(tensors):
        if spec.alias_of is not None or "float" not in spec.dtype or spec.high is not None or not leaves[index].numel():
            continue
        changed = [
            signed[index] if index in (place, other.alias_of) else leaf
            for place, (other, leaf) in enumerate(zip(tensors, leaves, strict=True))
        ]
        try:
            finite = all(bool(leaf.isfinite().all()) for leaf in subject.outputs(model, changed))
        except ProblemError:  # an assertion of the user's, or an operator's own check of its domain
            finite = False
        if not finite:
            low, high = bounds[index] or (float(leaves[index].min()), float(leaves[index].max()))
            tensors[index] = replace(spec, low=low, high=high)
    return replace(subject.problem.signature, tensors=tuple(tensors))


def _identified(problem: Problem, model: nn.Module, leaves: Sequence[torch.Tensor]) -> Problem:
    """`problem` with its region, or with the reason why it has none."""
    try:
        taken = capture_problem(problem)
    except CaptureError as error:
        return replace(problem, opaque=str(error))
    call: dict[str, Any] = unflatten(problem.signature.arguments, leaves)
    with autocast_region(problem):
        error = agrees(taken, model, call["args"], call["kwargs"])
    if error > _granted(problem):
        return replace(problem, opaque=f"the captured graph computes something else: its relative error is {error:.1g}")
    return replace(problem, region=identify(taken))


def _granted(problem: Problem) -> float:
    """The relative error within which graph and module agree: half the digits of the narrowest type at work."""
    named = [spec.dtype for spec in problem.signature.tensors] + [problem.numerics.autocast or "float32"]
    epsilons = [torch.finfo(getattr(torch, name)).eps for name in named if "float" in name]
    return max(epsilons) ** 0.5
