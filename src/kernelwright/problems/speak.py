"""Example tensors as Python text that draws more of their kind."""

import json
from collections.abc import Sequence
from typing import Any

import torch

from kernelwright.graph.containers import literal
from kernelwright.records import TensorSpec, unflatten


def get_inputs_text(call: Any, leaves: Sequence[torch.Tensor], specs: Sequence[TensorSpec]) -> str:
    """`get_inputs` for a call given as a records.nest template (decoded), with an expression for each leaf."""
    spoken = [_Words(speak(leaf, spec)) for leaf, spec in zip(leaves, specs, strict=True)]
    imports = "".join(
        f"    import {module}\n" for module in ("base64", "zlib") if any(f"{module}." in words for words in spoken)
    )
    value = unflatten(json.dumps(call), spoken)
    return f"def get_inputs():\n{imports}    return {value!r}\n"


class _Words(str):
    """Text that stands for itself inside the repr of a list."""

    def __repr__(self) -> str:
        return str(self)


def speak(leaf: torch.Tensor, spec: TensorSpec) -> str:
    """An expression for tensors like `leaf`: a constant, a count, a triangle as they are; else its distribution, or
    for integers all that its spec allows.

    Raises CaptureError for a tensor with NaN or Inf in no such pattern, which is too large to be written down.
    """
    leaf = leaf.detach()
    shape = tuple(leaf.shape)
    dtype = "" if leaf.dtype is torch.float32 else f", dtype={leaf.dtype}"
    if leaf.numel() == 0:
        return f"torch.empty({shape}{dtype})"
    first = leaf.reshape(-1)[0]
    if leaf.numel() > 1 and bool((leaf == first).all()):
        return f"torch.full({shape}, {_number(first.item())}, dtype={leaf.dtype})"
    if _counts(leaf):
        whole = shape if leaf.dim() > 1 else None
        counted = f"torch.arange({shape[-1]}, dtype={leaf.dtype})"
        return counted if whole is None else f"{counted}.repeat({(*shape[:-1], 1)})"
    triangle = _triangle(leaf)
    if triangle:
        return triangle
    if leaf.dtype is torch.bool:
        return f"torch.rand({shape}) < {float(leaf.double().mean()):.4g}"
    if not leaf.dtype.is_floating_point:
        return f"torch.randint({int(spec.low or 0)}, {int(spec.high or 0) + 1}, {shape}, dtype={leaf.dtype})"
    if not bool(leaf.isfinite().all()):
        return literal(leaf, spec.name)
    return _drawn(leaf, dtype)


def _drawn(leaf: torch.Tensor, dtype: str) -> str:
    """Normal with the leaf's mean and deviation; uniform where the leaf keeps to one side of zero."""
    shape, wide = tuple(leaf.shape), leaf.double()
    low, high = float(wide.min()), float(wide.max())
    if leaf.numel() == 1:
        return f"torch.randn({shape}{dtype}) * {abs(low) or 1.0:.6g}"
    if low >= 0 or high <= 0:
        return f"torch.rand({shape}{dtype}) * {high - low:.6g} + {low:.6g}"
    mean, deviation = float(wide.mean()), float(wide.std())
    scale = "" if abs(deviation - 1) < 0.05 else f" * {deviation:.6g}"
    shift = "" if abs(mean) < 0.05 * deviation else f" + {mean:.6g}"
    return f"torch.randn({shape}{dtype}){scale}{shift}"


def _number(value: float | int | bool) -> str:
    return f'float("{value}")' if isinstance(value, float) and not -1e308 < value < 1e308 else repr(value)


def _counts(leaf: torch.Tensor) -> bool:
    """Whether each row is 0, 1, 2, ..., as position indices are."""
    if leaf.dtype.is_floating_point or leaf.dtype is torch.bool or leaf.dim() == 0 or leaf.shape[-1] < 2:
        return False
    return bool((leaf == torch.arange(leaf.shape[-1], dtype=leaf.dtype)).all())


def _triangle(leaf: torch.Tensor) -> str:
    """The expression for a causal mask: square matrices of two values that meet at the diagonal; empty for none."""
    if leaf.dim() < 2 or leaf.shape[-1] != leaf.shape[-2] or leaf.shape[-1] < 2:
        return ""
    size = leaf.shape[-1]
    below, above = leaf.reshape(-1, size, size)[0, 1, 0], leaf.reshape(-1, size, size)[0, 0, 1]
    lower = torch.ones(size, size, dtype=torch.bool).tril()
    if bool(below == above) or not bool((leaf == torch.where(lower, below, above)).all()):
        return ""
    mask = f"torch.ones({size}, {size}, dtype=torch.bool).tril()"
    if leaf.dtype is not torch.bool:
        values = f"{_number(below.item())}, {_number(above.item())}"
        mask = f"torch.where({mask}, {values}).to({leaf.dtype})"
    elif not bool(below):
        mask = f"~{mask}"
    return f"({mask}).repeat({(*leaf.shape[:-2], 1, 1)})" if leaf.dim() > 2 else mask
