"""Serves the random numbers of a user's `get_inputs` from our own generator.

The user's text keeps its structure (`torch.rand(n) * 2 - 1`, masks, targets); only the numbers come from us, so that
a seed decides them and a torch release does not. The interception is a dispatch mode: below Python, `torch.rand`,
`Tensor.uniform_` and `nn.init` have all become the same few operators.
"""

import math
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.problems.philox import Stream

_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
_TAIL = {"exponential_", "cauchy_", "log_normal_", "geometric_"}
_GLOBAL_STATE = Lock()


def fill(tensor: torch.Tensor, chunks: Iterator[np.ndarray], finish: Callable[[Any], Any] | None = None) -> None:
    """Writes the chunks into `tensor` in row-major order; `finish` sees each as a float64 or int64 tensor first."""
    flat = tensor.view(-1) if tensor.is_contiguous() else torch.empty(tensor.numel(), dtype=tensor.dtype)
    start = 0
    for chunk in chunks:
        values = torch.from_numpy(chunk)
        flat[start : start + chunk.size] = finish(values) if finish else values
        start += chunk.size
    if not tensor.is_contiguous():
        tensor.copy_(flat.view(tensor.shape))


def digits(dtype: torch.dtype) -> int:
    """How many binary digits a uniform number of `dtype` has, so that rounding never reaches 1."""
    return _DIGITS.get(dtype, 24)


class Drawing(TorchDispatchMode):
    """While active, random operators take their numbers from `seed`: the n-th call from the n-th stream."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._calls = 0
        self._drawn: dict[int, tuple[torch.Tensor, int, tuple[float, float]]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        draw = _DRAWS.get(name)
        if draw is None:
            return func(*args, **kwargs)
        given = {item.name: item.default_value for item in func._schema.arguments if item.has_default_value()}
        given |= dict(zip((item.name for item in func._schema.arguments), args, strict=False)) | kwargs
        stream = Stream(self._seed, self._calls)
        self._calls += 1
        result, bounds = draw(stream, given)
        if bounds is not None:
            # The binding hands the caller another object for the same memory, so memory it is that is remembered
            # (and kept alive); an operator in place counts as a version only after it returns.
            version = result._version + 1 if result is given.get("self") else 0
            self._drawn[result.data_ptr()] = (result, version, bounds)
        return result

    def bounds(self, tensor: torch.Tensor) -> tuple[float, float] | None:
        """The interval that `tensor` was drawn from uniformly, both ends included; None where it was not, or was
        changed since."""
        if tensor.layout is not torch.strided or tensor.is_meta:
            return None  # it has no memory
        memory, version, bounds = self._drawn.get(tensor.data_ptr(), (None, 0, None))
        same = memory is not None and memory.numel() == tensor.numel() and memory.dtype == tensor.dtype
        return bounds if same and tensor._version == version else None


@contextmanager
def drawn(seed: int) -> Iterator[Drawing]:
    """Everything random inside follows from `seed`; Python's, NumPy's and torch's own generators are put back after.

    What torch draws by operators we do not know (`multinomial`) follows the seed too, within one torch release.
    """
    with _GLOBAL_STATE, ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        python_state, numpy_state = random.getstate(), np.random.get_state()
        stack.callback(random.setstate, python_state)
        stack.callback(np.random.set_state, numpy_state)
        random.seed(seed)
        np.random.seed(seed & 0xFFFFFFFF)
        torch.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        yield stack.enter_context(Drawing(seed))


Drawn = tuple[torch.Tensor, tuple[float, float] | None]


def _made(given: dict[str, Any], fallback: torch.dtype) -> torch.Tensor:
    """The tensor that a factory call asks for, contiguous unless it takes after a strided one."""
    like = given.get("self")
    device = given.get("device") or (like.device if like is not None else torch.get_default_device())
    asked = given.get("dtype")  # a schema's own default stands there as a number
    dtype = asked if isinstance(asked, torch.dtype) else like.dtype if like is not None else fallback
    if like is not None:
        return torch.empty_like(like, dtype=dtype, device=device)
    return torch.empty(given["size"], dtype=dtype, device=device)


def _rand(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor = _made(given, torch.get_default_dtype())
    fill(tensor, stream.uniform(tensor.numel(), digits(tensor.dtype)))
    return tensor, (0.0, 1.0)


def _randn(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor = _made(given, torch.get_default_dtype())
    fill(tensor, stream.normal(tensor.numel()))
    return tensor, None


def _randint(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor = _made(given, torch.int64)
    low, high = int(given.get("low", 0)), int(given["high"]) - 1
    fill(tensor, stream.integers(tensor.numel(), low, high))
    return tensor, (low, high)


def _randperm(stream: Stream, given: dict[str, Any]) -> Drawn:
    count = int(given["n"])
    order = torch.from_numpy(stream.permutation(count))
    asked = given.get("dtype")
    return order.to(asked if isinstance(asked, torch.dtype) else torch.int64), (0, max(count - 1, 0))


def _uniform(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor, low, high = given["self"], float(given["from"]), float(given["to"])
    fill(tensor, stream.uniform(tensor.numel(), digits(tensor.dtype)), lambda u: low + (high - low) * u)
    return tensor, (low, high)


def _normal_in_place(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor, mean, std = given["self"], float(given["mean"]), float(given["std"])
    fill(tensor, stream.normal(tensor.numel()), lambda z: mean + std * z)
    return tensor, None


def _normal(stream: Stream, given: dict[str, Any]) -> Drawn:
    """torch.normal, whose mean and deviation may be tensors or numbers."""
    mean, std = given["mean"], given["std"]
    if "size" in given:
        tensor = _made(given, torch.get_default_dtype())
    else:
        parts = [part for part in (mean, std) if isinstance(part, torch.Tensor)]
        tensor = torch.empty(torch.broadcast_shapes(*(part.shape for part in parts)), dtype=parts[0].dtype)
    fill(tensor, stream.normal(tensor.numel()))
    return tensor.mul_(std).add_(mean), None


def _bernoulli(stream: Stream, given: dict[str, Any]) -> Drawn:
    source = given["self"]
    tensor = torch.empty_like(source)
    chance = source if given.get("p") is None else given["p"]
    return tensor.copy_(_uniform_like(stream, tensor.shape) < chance), (0.0, 1.0)


def _bernoulli_in_place(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor = given["self"]
    return tensor.copy_(_uniform_like(stream, tensor.shape) < given["p"]), (0.0, 1.0)


def _random_in_place(stream: Stream, given: dict[str, Any]) -> Drawn:
    tensor, low, high = given["self"], int(given.get("from") or 0), given.get("to")
    if high is None:
        exact = tensor.dtype.is_floating_point
        largest = (1 << digits(tensor.dtype)) if exact else int(tensor.dtype != torch.bool and _largest(tensor.dtype))
        high = 2 if tensor.dtype == torch.bool else largest + (not exact)
    fill(tensor, stream.integers(tensor.numel(), low, int(high) - 1))
    return tensor, (low, int(high) - 1)


def _largest(dtype: torch.dtype) -> int:
    return torch.iinfo(dtype).max


def _tailed(name: str) -> Callable[[Stream, dict[str, Any]], Drawn]:
    def draw(stream: Stream, given: dict[str, Any]) -> Drawn:
        tensor = given["self"]
        if name == "log_normal_":
            mean, std = float(given["mean"]), float(given["std"])
            fill(tensor, stream.normal(tensor.numel()), lambda z: torch.exp(mean + std * z))
            return tensor, None
        uniform = stream.uniform(tensor.numel(), 53)
        if name == "exponential_":
            rate = float(given["lambd"])
            fill(tensor, uniform, lambda u: -torch.log1p(-u) / rate)
        elif name == "cauchy_":
            median, width = float(given["median"]), float(given["sigma"])
            fill(tensor, uniform, lambda u: median + width * torch.tan(math.pi * (u - 0.5)))
        else:
            chance = float(given["p"])
            fill(tensor, uniform, lambda u: torch.floor(torch.log1p(-u) / math.log1p(-chance)) + 1)
        return tensor, None

    return draw


def _uniform_like(stream: Stream, shape: torch.Size) -> torch.Tensor:
    values = torch.empty(shape, dtype=torch.float64)
    fill(values, stream.uniform(values.numel(), 53))
    return values


_DRAWS: dict[str, Callable[[Stream, dict[str, Any]], Drawn]] = {
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_in_place,
    "normal": _normal,
    "normal_": _normal_in_place,
    "rand": _rand,
    "rand_like": _rand,
    "randint": _randint,
    "randint_like": _randint,
    "randn": _randn,
    "randn_like": _randn,
    "randperm": _randperm,
    "random_": _random_in_place,
    "uniform_": _uniform,
} | {name: _tailed(name) for name in sorted(_TAIL)}
