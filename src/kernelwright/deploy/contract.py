"""Whether a call is one that was proven: cheap tests made before every call of a deployed kernel."""

import json
from typing import Any

import torch
from torch._C import _functorch  # type: ignore[attr-defined]

from kernelwright.records import Numerics, Range, Signature, TensorSpec

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Contract:
    """The calls a verdict speaks of. `leaves` answers None for any other, and never raises."""

    def __init__(self, signature: Signature, numerics: Numerics) -> None:
        self._tree = json.loads(signature.arguments)
        self._specs = tuple(_Leaf(spec) for spec in signature.tensors)
        self._aliases = tuple(
            (index, spec.alias_of) for index, spec in enumerate(signature.tensors) if spec.alias_of is not None
        )
        self._device = signature.device
        self._autocast = numerics.autocast

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor] | None:
        """The tensors of the call in signature order, or None where the call is outside the contract."""
        if not _ordinary_world() or not self._autocast_fits():
            return None
        found: list[Any] = []
        if not _collect(self._tree, {"args": args, "kwargs": kwargs}, found):
            return None
        return found if self.fits(found) else None

    def fits(self, leaves: list[Any]) -> bool:
        """Whether `leaves` have the types, dtypes, shapes, devices and aliases of the signature."""
        if len(leaves) != len(self._specs):
            return False
        for leaf, spec in zip(leaves, self._specs, strict=True):
            if type(leaf) not in _PLAIN or not spec.fits(leaf) or leaf.device.type != self._device:
                return False
        return all(leaves[index] is leaves[other] for index, other in self._aliases)

    def _autocast_fits(self) -> bool:
        if not torch.is_autocast_enabled(self._device):
            return self._autocast is None
        return self._autocast == str(torch.get_autocast_dtype(self._device)).removeprefix("torch.")


class _Leaf:
    """One TensorSpec, prepared for quick comparison."""

    def __init__(self, spec: TensorSpec) -> None:
        self.dtype = getattr(torch, spec.dtype)
        self.shape = torch.Size(spec.example_shape)
        self.ranges = tuple(
            (dim, size.low, size.high) for dim, size in enumerate(spec.shape) if isinstance(size, Range)
        )

    def fits(self, leaf: torch.Tensor) -> bool:
        if leaf.dtype is not self.dtype:
            return False
        shape = leaf.shape
        if not self.ranges:
            return shape == self.shape
        if len(shape) != len(self.shape):
            return False
        open_dims = {dim for dim, _, _ in self.ranges}
        return all(low <= shape[dim] <= high for dim, low, high in self.ranges) and all(
            shape[dim] == size for dim, size in enumerate(self.shape) if dim not in open_dims
        )


def _ordinary_world() -> bool:
    """False while something reinterprets tensors: tracing, compiling, vmap and grad transforms, dispatch modes."""
    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or _functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
    )


def _collect(tree: Any, value: Any, found: list[Any]) -> bool:
    """Puts the tensors of `value` into `found`; False where its structure is not the template's."""
    if isinstance(tree, dict):
        if "tensor" in tree:
            found.append(value)
            return True
        if "tuple" in tree:
            return isinstance(value, tuple) and _collect_all(tree["tuple"], value, found)
        parts = tree["dict"]
        return (
            isinstance(value, dict)
            and parts.keys() == value.keys()
            and all(_collect(part, value[key], found) for key, part in parts.items())
        )
    if isinstance(tree, list):
        return isinstance(value, (list, tuple)) and _collect_all(tree, value, found)
    return type(tree) is type(value) and tree == value


def _collect_all(trees: list[Any], values: Any, found: list[Any]) -> bool:
    return len(trees) == len(values) and all(
        _collect(tree, value, found) for tree, value in zip(trees, values, strict=True)
    )
