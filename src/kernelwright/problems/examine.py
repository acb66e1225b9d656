"""Runs a reference once and writes down its contract: the tensors it takes, their bounds, its graph."""

import inspect
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import nn

from kernelwright.errors import ProblemError, UsageError
from kernelwright.graph.reference import build_reference, load_text, user_code
from kernelwright.problems.dialect import call_inputs
from kernelwright.problems.drawing import drawn
from kernelwright.problems.footprint import refuse_too_large
from kernelwright.problems.inputs import arguments
from kernelwright.records import Case, Numerics, Problem, Range, Signature, TensorSpec, flatten, unflatten

_TIMED = 3
_AGREES = 64
"""Runs of one reference agree where they differ by fewer units in the last place of their largest value."""


def examine(
    problem: Problem, specs: Sequence[TensorSpec] = (), weights: Mapping[str, torch.Tensor] | None = None
) -> Problem:
    """`problem` with its signature, bounds and region. `specs` open sizes that `get_inputs` leaves fixed.

    Raises ProblemError for a reference that raises, returns no tensors, draws random numbers or keeps state.
    """
    module = load_text(problem.source, problem.name, import_paths=problem.import_paths)
    _check_class(problem, module)
    refuse_too_large(problem)
    model = _build(problem, module, weights)
    with user_code(str(module.__file__), f"get_inputs of {problem.name} failed"), drawn(0) as drawing, torch.no_grad():
        leaves, template, call = call_inputs(module)
    names = _names(model, call, problem.name)
    drawn_from = [drawing.bounds(leaf) for leaf in leaves]
    tensors = tuple(_spec(name, index, leaves, drawn_from[index]) for index, name in enumerate(names))
    problem = replace(problem, signature=Signature(_opened(tensors, specs), template))
    result = run(problem, model, module, leaves, seed=1)
    _refuse_unrepeatable(problem, model, module, weights, leaves, result)
    if all(leaf.isfinite().all() for leaf in result):
        problem = replace(problem, signature=_bounded(problem, module, weights, drawn_from))
    else:
        warnings.warn(f"{problem.name} gives NaN or Inf for its own inputs", stacklevel=3)
    return problem


def _build(problem: Problem, module: ModuleType, weights: Mapping[str, torch.Tensor] | None) -> nn.Module:
    _check_class(problem, module)
    return build_reference(problem, weights)


def _check_class(problem: Problem, module: ModuleType) -> None:
    kind = module.Model
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ProblemError(f"{problem.name} is not a class derived from torch.nn.Module")


def run(
    problem: Problem, model: nn.Module, module: ModuleType, leaves: Sequence[torch.Tensor], seed: int
) -> list[torch.Tensor]:
    """The tensors that the reference returns, under torch's own generator seeded with `seed`."""
    call = unflatten(problem.signature.arguments, leaves)
    with (
        user_code(str(module.__file__), f"{problem.name}.forward failed"),
        torch.random.fork_rng(devices=[]),
        torch.no_grad(),
    ):
        torch.manual_seed(seed)
        with autocast_region(problem.numerics):
            result = model(*call["args"], **call["kwargs"])
    try:
        outputs, _ = flatten(result, lambda item: isinstance(item, torch.Tensor))
    except TypeError as error:
        raise ProblemError(f"what {problem.name}.forward returns cannot be compared: {error}") from error
    if not outputs:
        raise ProblemError(f"{problem.name}.forward returns no tensor, so there is nothing to compare")
    return outputs


def eager_ms(problem: Problem) -> float:
    """The time of one call of a problem not yet examined: the least of a few, so that other work counts little."""
    module = load_text(problem.source, problem.name, import_paths=problem.import_paths)
    model = _build(problem, module, None)
    with user_code(str(module.__file__), f"{problem.name} failed"), drawn(0):
        leaves, template, _ = call_inputs(module)
    problem = replace(problem, signature=Signature((), template))
    times = []
    for _ in range(_TIMED):
        start = time.perf_counter()
        run(problem, model, module, leaves, seed=1)
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def autocast_region(numerics: Numerics) -> AbstractContextManager[Any]:
    """The autocast region around the call, if the problem has one."""
    if numerics.autocast is None:
        return nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, numerics.autocast))


def _names(model: nn.Module, call: dict[str, Any], name: str) -> list[str]:
    """A name for each leaf: the parameter of `forward`, with an index where it holds several tensors."""
    try:
        bound = inspect.signature(model.forward).bind(*call["args"], **call["kwargs"])
    except TypeError as error:
        raise ProblemError(f"{name}.forward does not take what get_inputs() returns: {error}") from error
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        count = len(flatten(value, lambda item: isinstance(item, torch.Tensor))[0])
        names += [parameter] if count == 1 else [f"{parameter}[{i}]" for i in range(count)]
    return names


def _spec(name: str, index: int, leaves: Sequence[torch.Tensor], drawn_from: tuple[float, float] | None) -> TensorSpec:
    leaf = leaves[index]
    if leaf.device.type != "cpu" or leaf.layout is not torch.strided or leaf.is_complex() or leaf.is_quantized:
        kind = "complex" if leaf.is_complex() else f"{leaf.device.type} {leaf.layout}"
        raise ProblemError(f"input {name!r} is a {kind} tensor; dense real tensors made on the CPU are expected")
    low: float | None = None
    high: float | None = None
    if not leaf.dtype.is_floating_point and leaf.dtype != torch.bool and leaf.numel():
        low, high = min(0, int(leaf.min())), int(leaf.max())
        if drawn_from is not None:
            low, high = int(drawn_from[0]), int(drawn_from[1])
    alias = next((i for i in range(index) if _same(leaves[i], leaf)), None)
    return TensorSpec(
        name,
        str(leaf.dtype).removeprefix("torch."),
        tuple(leaf.shape),
        None if leaf.is_contiguous() else tuple(leaf.stride()),
        alias,
        low,
        high,
    )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one is other or (
        one.numel() > 0
        and one.data_ptr() == other.data_ptr()
        and (one.shape, one.stride(), one.dtype) == (other.shape, other.stride(), other.dtype)
    )


def _opened(tensors: tuple[TensorSpec, ...], specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """`tensors` with the ranges and bounds that `specs` declare. Raises UsageError where the two do not fit."""
    if not specs:
        return tensors
    if len(specs) != len(tensors):
        raise UsageError(f"{len(specs)} inputs were described, and get_inputs() returns {len(tensors)} tensors")
    return tuple(_open(tensor, spec) for tensor, spec in zip(tensors, specs, strict=True))


def _open(tensor: TensorSpec, spec: TensorSpec) -> TensorSpec:
    fits = tensor.dtype == spec.dtype and len(tensor.shape) == len(spec.shape)
    shape: list[int | Range] = []
    for size, wanted in zip(tensor.example_shape, spec.shape, strict=False):
        if isinstance(wanted, Range):
            fits = fits and wanted.low <= size <= wanted.high
            shape.append(Range(wanted.low, wanted.high, size))
        else:
            fits = fits and wanted == size
            shape.append(size)
    if not fits:
        raise UsageError(
            f"input {tensor.name!r} was described as {spec.dtype}{_written(spec)}, "
            f"and get_inputs() returns {tensor.dtype}{_written(tensor)}"
        )
    if spec.high is None:
        return replace(tensor, shape=tuple(shape))
    return replace(tensor, shape=tuple(shape), low=spec.low, high=spec.high)


def _written(spec: TensorSpec) -> str:
    sizes = (f"{size.low}..{size.high}" if isinstance(size, Range) else str(size) for size in spec.shape)
    return f"[{','.join(sizes)}]"


def _refuse_unrepeatable(
    problem: Problem,
    model: nn.Module,
    module: ModuleType,
    weights: Mapping[str, torch.Tensor] | None,
    leaves: Sequence[torch.Tensor],
    result: Sequence[torch.Tensor],
) -> None:
    """Raises ProblemError where another run of the reference gives another result."""
    if not _agree(result, run(problem, model, module, leaves, seed=1)):
        raise ProblemError(
            f"{problem.name} keeps state between calls: a second call with the same input gives another result, "
            "so there is nothing to hold a candidate to"
        )
    if not _agree(result, run(problem, _build(problem, module, weights), module, leaves, seed=2)):
        advice = "leave out --train-mode" if problem.numerics.training else "pass what it draws as an input"
        raise ProblemError(
            f"{problem.name} draws random numbers in forward (as dropout does while training): two runs on the same "
            f"input differ, so there is nothing to hold a candidate to; {advice}"
        )


def _agree(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    finite = one.isfinite()
    largest = float(one[finite].abs().max()) if finite.any() else 1.0
    slack = _AGREES * torch.finfo(one.dtype).eps * largest
    return torch.allclose(one.double(), other.double(), rtol=0, atol=slack, equal_nan=True)


def _bounded(
    problem: Problem,
    module: ModuleType,
    weights: Mapping[str, torch.Tensor] | None,
    drawn_from: Sequence[tuple[float, float] | None],
) -> Signature:
    """The signature with bounds on each floating leaf beyond whose own interval the reference is not finite."""
    case = Case()
    nominal = arguments(problem, case)
    signed = arguments(problem, replace(case, family="signed"))
    model = _build(problem, module, weights)
    tensors = list(problem.signature.tensors)
    for index, spec in enumerate(tensors):
        if (
            spec.alias_of is not None
            or "float" not in spec.dtype
            or spec.high is not None
            or not nominal[index].numel()
        ):
            continue
        changed = [
            signed[index] if other.alias_of == index else leaf for other, leaf in zip(tensors, nominal, strict=True)
        ]
        changed[index] = signed[index]
        try:
            finite = all(leaf.isfinite().all() for leaf in run(problem, model, module, changed, seed=1))
        except ProblemError:  # an assertion of the user's, or an operator's own check of its domain
            finite = False
        if not finite:
            low, high = drawn_from[index] or (float(nominal[index].min()), float(nominal[index].max()))
            tensors[index] = replace(spec, low=low, high=high)
    return replace(problem.signature, tensors=tuple(tensors))
