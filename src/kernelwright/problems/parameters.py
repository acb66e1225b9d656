"""Other weights for the same module, so that nothing learned of one set of values can serve for all."""

import zlib
from collections.abc import Mapping
from functools import lru_cache

import torch

from kernelwright.errors import UsageError
from kernelwright.graph.reference import build_reference
from kernelwright.problems.drawing import fill
from kernelwright.problems.philox import Stream
from kernelwright.records import Problem

VARIANTS = ("original", "permuted", "scaled")

_STATISTICS = ("running_mean", "running_var")
"""The buffers that count as learned; any other buffer (a causal mask, a table of angles) is structure and stays."""
_SPREAD = 0.1
"""What a constant weight (a fresh norm's ones and zeros) is varied by, since to permute or scale it changes little."""


def weights(
    problem: Problem, weights: Mapping[str, torch.Tensor] | None, variant: str, seed: int
) -> dict[str, torch.Tensor]:
    """A state_dict for the problem's `Model`: new tensors, but for ties, which stay ties.

    `weights`: the user's; None means those the constructor makes under seed 0. "permuted": along the first dimension
    by an order that tensors of one length share. "scaled": each channel (first dimension) by its own factor from
    1/2 to 2. In both, constants are spread a little, variances stay positive, integers and masks stay as they are.
    """
    if variant not in VARIANTS:
        raise UsageError(f"no variant of weights is called {variant!r}; known: {', '.join(VARIANTS)}")
    leaders, parameters = _structure(problem)
    given = weights if weights is not None else build_reference(problem).state_dict()
    result: dict[str, torch.Tensor] = {}
    for name, tensor in given.items():
        leader = leaders.get(name, name)
        if leader in result:
            result[name] = result[leader]
            continue
        value = tensor.detach().clone()
        learned = name in parameters or name.rsplit(".", 1)[-1] in _STATISTICS
        if variant != "original" and learned and _quantity(value):
            value = _vary(value, name, variant, seed)
        result[name] = value
    return result


@lru_cache(maxsize=16)
def _structure(problem: Problem) -> tuple[dict[str, str], frozenset[str]]:
    """The first name of each tensor's memory, by name; and the names that are parameters."""
    model = build_reference(problem)
    first: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    leaders = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        leaders[name] = first.setdefault(place, name) if tensor.numel() else name
    names = frozenset(name for name, _ in model.named_parameters(remove_duplicate=False))
    return leaders, names


def _quantity(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point and tensor.numel() > 0 and bool(tensor.isfinite().all())


def _vary(value: torch.Tensor, name: str, variant: str, seed: int) -> torch.Tensor:
    positive = name.endswith("running_var")
    stream = Stream(seed, zlib.crc32(name.encode()), part=1)
    if bool((value == value.reshape(-1)[0]).all()):
        spread = torch.empty(value.shape, dtype=torch.float64)
        fill(spread, stream.normal(spread.numel()), lambda z: _SPREAD * z)
        centre = value.double()
        varied = centre * torch.exp(spread) if positive else centre + spread * centre.abs().clamp_min(1.0)
        return varied.to(value.dtype)
    if value.dim() == 0:
        return value * 1.5 if variant == "scaled" else value
    channels = value.shape[0]
    if variant == "permuted" and channels > 1:
        return value[_order(seed, channels)].contiguous()
    if variant == "permuted":
        return value.reshape(-1)[torch.from_numpy(stream.permutation(value.numel()))].view(value.shape)
    factors = torch.empty(channels, dtype=torch.float64)
    fill(factors, stream.uniform(channels, 53), lambda u: torch.exp2(2 * u - 1))
    return (value.double() * factors.view(-1, *[1] * (value.dim() - 1))).to(value.dtype)


def _order(seed: int, channels: int) -> torch.Tensor:
    """A permutation that moves something."""
    order = torch.from_numpy(Stream(seed, channels, part=2).permutation(channels))
    return order.roll(1) if torch.equal(order, torch.arange(channels)) else order
