"""A problem's reference, ready to be built and called in this process."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import nn

from kernelwright.errors import ProblemError
from kernelwright.graph import build_reference, load_text
from kernelwright.graph.reference import user_code
from kernelwright.records import Problem, flatten, unflatten

_AGREES = 64
"""Runs of one reference agree where they differ by fewer units in the last place of their largest value."""


@dataclass(frozen=True)
class Subject:
    """The problem, whose signature may still be unknown, and the weights it is run with."""

    problem: Problem
    weights: Mapping[str, torch.Tensor] | None = None

    @cached_property
    def module(self) -> ModuleType:
        """The text, run. Raises ProblemError where it raises or where its class is no nn.Module."""
        module = load_text(self.problem.source, self.problem.name, import_paths=self.problem.import_paths)
        kind = module.Model
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise ProblemError(f"{self.problem.name} is not a class derived from torch.nn.Module")
        return module

    def failing(self, what: str) -> AbstractContextManager[None]:
        """Around the user's code: what it raises becomes a ProblemError that names the line."""
        return user_code(str(self.module.__file__), f"{what} of {self.problem.name} failed")

    def build(self) -> nn.Module:
        """The module, new each time."""
        return build_reference(self.problem, self.weights)

    def outputs(self, model: nn.Module, leaves: Sequence[torch.Tensor], seed: int = 1) -> list[torch.Tensor]:
        """The tensors a call returns, under torch's own generator seeded with `seed`.

        Raises ProblemError for a result that cannot be compared and for a call that changes its inputs.
        """
        call = unflatten(self.problem.signature.arguments, leaves)
        before = [leaf._version for leaf in leaves]
        with self.failing("forward"), torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            with autocast_region(self.problem):
                result = model(*call["args"], **call["kwargs"])
        if any(leaf._version != version for leaf, version in zip(leaves, before, strict=True)):
            raise ProblemError(
                f"forward of {self.problem.name} changes its inputs in place, which no candidate could be allowed to; "
                "let it work on a copy (no inplace=True on an input)"
            )
        try:
            found, _ = flatten(result, lambda item: isinstance(item, torch.Tensor))
        except TypeError as error:
            raise ProblemError(f"what forward of {self.problem.name} returns cannot be compared: {error}") from error
        if not found:
            raise ProblemError(f"forward of {self.problem.name} returns no tensor, so there is nothing to compare")
        return found

    def refuse_random(self, one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> None:
        """Raises ProblemError where the results under two seeds of torch's own generator differ."""
        if not _agree(one, other):
            advice = "leave out --train-mode" if self.problem.numerics.training else "pass what it draws as an input"
            raise ProblemError(
                f"{self.problem.name} draws random numbers in forward (as dropout does while training): two runs on "
                f"the same input differ, so there is nothing to hold a candidate to; {advice}"
            )

    def refuse_unrepeatable(self, model: nn.Module, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the first call of `model` returns. Raises ProblemError where another run gives another result."""
        first = self.outputs(model, leaves)
        self.refuse_random(first, self.outputs(self.build(), leaves, seed=2))
        if not _agree(first, self.outputs(model, leaves)):
            raise ProblemError(
                f"{self.problem.name} keeps state between calls: a second call with the same input gives another "
                "result, so there is nothing to hold a candidate to"
            )
        return first


def autocast_region(problem: Problem) -> AbstractContextManager[Any]:
    """The autocast region around the call, if the problem has one."""
    dtype = problem.numerics.autocast
    return nullcontext() if dtype is None else torch.autocast("cpu", dtype=getattr(torch, dtype))


def _agree(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))


def _close(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if torch.equal(one, other):  # as a rule, and at a tenth of the cost of what follows
        return True
    if not one.dtype.is_floating_point:
        return False
    finite = one.isfinite()
    largest = float(one[finite].abs().max()) if finite.any() else 1.0
    slack = _AGREES * torch.finfo(one.dtype).eps * largest
    return torch.allclose(one.double(), other.double(), rtol=0, atol=slack, equal_nan=True)
