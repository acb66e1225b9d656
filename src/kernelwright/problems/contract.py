"""The signature of a call: what its tensors are, and which of their sizes and values are left open."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from kernelwright.errors import ProblemError, UsageError
from kernelwright.records import Range, TensorSpec, flatten


def leaf_names(model: nn.Module, call: dict[str, Any], name: str) -> list[str]:
    """A name for each leaf: the parameter of `forward`, with an index where it holds several tensors."""
    try:
        bound = inspect.signature(model.forward).bind(*call["args"], **call["kwargs"])
    except TypeError as error:
        raise ProblemError(f"forward of {name} does not take what get_inputs() returns: {error}") from error
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        count = len(flatten(value, lambda item: isinstance(item, torch.Tensor))[0])
        names += [parameter] if count == 1 else [f"{parameter}[{i}]" for i in range(count)]
    return names


def spec_of(
    name: str, index: int, leaves: Sequence[torch.Tensor], drawn_from: tuple[float, float] | None = None
) -> TensorSpec:
    """The leaf as it is. Integers get the interval they were drawn from, else 0 to the largest that is there."""
    leaf = leaves[index]
    if leaf.device.type != "cpu" or leaf.layout is not torch.strided or leaf.is_complex() or leaf.is_quantized:
        kind = f"{leaf.device.type} tensor of {leaf.dtype} and layout {leaf.layout}"
        raise ProblemError(f"input {name!r} is a {kind}; dense real tensors on the CPU are expected")
    low: float | None = None
    high: float | None = None
    if not leaf.dtype.is_floating_point and leaf.dtype != torch.bool and leaf.numel():
        low, high = drawn_from or (min(0, int(leaf.min())), int(leaf.max()))
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


def opened(tensors: tuple[TensorSpec, ...], specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
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
