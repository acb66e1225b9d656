"""What a reference would cost, found without allocating it: run on tensors that have shapes and no memory."""

import logging
import math
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    unset_fake_temporarily,
)
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from kernelwright.errors import ProblemError, TooLargeError
from kernelwright.graph.reference import load_text, user_code
from kernelwright.problems.dialect import call_inputs
from kernelwright.records import Problem

_CANNOT_FAKE = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
_COPIES = 4
"""How often inputs, weights and the largest intermediate exist while a candidate is judged: once for the reference,
once for the candidate, twice over for the oracle in float64."""
_FLOPS_PER_MS, _BYTES_PER_MS, _OPERATOR_MS = 60e6, 6e6, 0.005
"""What two cores do in float32: products at 60 GFLOP/s, results written at 6 GB/s, and 5 us a call."""
_COMPARED_PER_MS = 1e6
"""Elements of windows that a pooling looks at."""
_TRANSPOSED = 3
"""How many times as long a product takes in a transposed convolution, or so: 1 to 8 were seen."""
_CALLS = 10_000
"""Operators counted, about a second's worth: a recurrent net of many steps would take half a minute."""
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Footprint:
    """Sizes of one call of a reference."""

    inputs_bytes: int
    weights_bytes: int
    largest_bytes: int
    """Of the largest tensor that the call makes."""
    moved_bytes: int
    """Of all tensors that the call makes, together with its inputs and weights."""
    flops: int
    """Of matrix products, convolutions and attention, as torch counts them; those of transposed convolutions as many
    as take their time."""
    operators: int
    compared: int = 0
    """Elements that poolings look at: those of each result's window."""

    @property
    def needed_bytes(self) -> int:
        """What judging takes."""
        return _COPIES * (self.inputs_bytes + self.weights_bytes + self.largest_bytes)

    @property
    def estimated_ms(self) -> float:
        """Of one call on a small CPU; good for a factor of two or three."""
        computing = self.flops / _FLOPS_PER_MS + self.compared / _COMPARED_PER_MS
        return self.operators * _OPERATOR_MS + max(computing, self.moved_bytes / _BYTES_PER_MS)


def footprint(problem: Problem) -> Footprint | None:
    """The cost of the problem's call; None where its Python looks at values, which nothing without memory can answer.

    Raises ProblemError where the user's code fails, as for sizes that do not fit each other.
    """
    module = load_text(problem.source, problem.name, import_paths=problem.import_paths)
    count, flops = _Count(), FlopCounterMode(display=False)
    leaves, state = [], {}
    # torch logs what fails here, and what fails here is answered by other sizes, or by a sentence.
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), user_code(str(module.__file__), f"{problem.name} failed"):
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        try:
            with mode:
                leaves, _, call = call_inputs(module)
                model, state = _faked(module, mode)
                model.train(problem.numerics.training)
                with flops, count:
                    functional_call(model, state, tuple(call["args"]), call["kwargs"])
        except _Enough:
            pass
        except _CANNOT_FAKE:
            return None
    inputs_bytes, weights_bytes = sum(map(_bytes, leaves)), sum(map(_bytes, state.values()))
    moved = inputs_bytes + weights_bytes + count.total_bytes
    computed = flops.get_total_flops() + count.transposed_flops * (_TRANSPOSED - 1)
    return Footprint(inputs_bytes, weights_bytes, count.largest_bytes, moved, computed, count.calls, count.compared)


def _faked(module: ModuleType, mode: FakeTensorMode) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The module and its state without memory. A constructor that looks at values is run for real first."""
    try:
        model = module.Model(*module.get_init_inputs())
        return model, model.state_dict(keep_vars=True)
    except _CANNOT_FAKE:
        with unset_fake_temporarily():
            model = module.Model(*module.get_init_inputs())
        named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        return model, {name: mode.from_tensor(tensor) for name, tensor in named}


def refuse_too_large(problem: Problem) -> None:
    """Raises TooLargeError for a problem that this machine's memory cannot hold while it is judged."""
    try:
        cost = footprint(problem)
    except ProblemError:  # running it for real says the same, and where
        return
    limit = memory_bytes()
    if cost is not None and cost.needed_bytes > limit:
        raise TooLargeError(
            f"{problem.name} is too large: judging it needs {_gigabytes(cost.needed_bytes)}, this machine has "
            f"{_gigabytes(limit)}; --scale auto makes its sizes fit",
            problem,
        )


def memory_bytes() -> int:
    """What this machine has, or what its container is granted where that is less."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUP_LIMITS:
        try:
            granted = Path(path).read_text().strip()
        except OSError:
            continue
        if granted.isdigit():
            limit = min(limit, int(granted))
    return limit


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.3g} GB"


class _Enough(Exception):
    """The call goes on for too long; what was counted must do."""


class _Count(TorchDispatchMode):
    """Adds up the tensors that operators make; views make none."""

    def __init__(self) -> None:
        super().__init__()
        self.total_bytes = 0
        self.largest_bytes = 0
        self.calls = 0
        self.compared = 0
        self.transposed_flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls += 1
        if self.calls > _CALLS:
            raise _Enough
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        if "pool" in name and "backward" not in name:
            made = result[0] if isinstance(result, (list, tuple)) else result
            self.compared += made.numel() * (math.prod(args[1]) if "adaptive" not in name else 1)
        elif name == "convolution" and args[6]:
            self.transposed_flops += 2 * args[0].numel() * args[1][0].numel()
        if not func.is_view:
            for tensor in result if isinstance(result, (list, tuple)) else [result]:
                if isinstance(tensor, torch.Tensor):
                    self.total_bytes += _bytes(tensor)
                    self.largest_bytes = max(self.largest_bytes, _bytes(tensor))
        return result
