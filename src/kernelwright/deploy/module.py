"""A drop-in for the user's module: the proven kernel where a call fits what was proven, the original elsewhere."""

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.deploy.artifact import save_artifact
from kernelwright.deploy.binding import Binding, Slots, instantiate
from kernelwright.deploy.contract import Contract
from kernelwright.errors import ArtifactError, KernelwrightError
from kernelwright.records import Entry, Problem

_DISABLED = "the kernel is disabled"


def drop_in(model: nn.Module, problem: Problem, entry: Entry) -> "Deployed":
    """`model` with the entry's kernel in its place.

    Raises ArtifactError where the verdict is not confirmed or the weights do not fit.
    """
    if not entry.verdict.confirmed:
        raise ArtifactError(
            f"{entry.candidate.title} is {entry.verdict.status.value} at stage {entry.verdict.stage.value}; "
            "only a confirmed kernel is put into a model"
        )
    return Deployed(model, problem, entry)


class Answered:
    """How calls of a deployed module were answered. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_kernel = 0
        self.by_original: Counter[str] = Counter()
        """Calls that fell back, by the reason."""

    def count(self, why_not: str) -> None:
        """`why_not`: why the original answered; empty where the kernel did."""
        with self._lock:
            if why_not:
                self.by_original[why_not] += 1
            else:
                self.by_kernel += 1

    def __str__(self) -> str:
        with self._lock:
            reasons = "".join(f"; {count} by the original: {why}" for why, count in self.by_original.most_common())
            return f"{self.by_kernel} calls by the kernel{reasons}"


class Deployed(nn.Module):
    """Has the original's parameters, buffers and submodules as its own, so that state_dict, `to` and optimizers agree.

    A call outside the contract (other shapes, dtypes or autocast, gradients wanted, another train mode, tracing) runs
    the original. Gradients wanted is said once, since a forgotten torch.no_grad() would hide the kernel for good.
    `answered` counts both, with the reasons; it is part of the repr.
    """

    def __init__(self, model: nn.Module, problem: Problem, entry: Entry) -> None:
        super().__init__()
        # In __dict__, since a registered submodule would rename every key of the state_dict; and the original's own
        # tables, so that whatever is assigned, moved or loaded here or there is seen by both.
        self.__dict__["original"] = model
        for table in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[table] = getattr(model, table)
        self.training = model.training
        self.problem = problem
        self.entry = entry
        self.disabled = ""
        """Why the kernel is not used any more; empty while it is."""
        self.answered = Answered()
        self._contract = Contract(problem.signature, problem.numerics)
        self._slots = Slots(model)
        self._read: Callable[[], list[torch.Tensor]] | None = None
        self._said_gradients = False
        try:
            self.__dict__["_kernel"] = Binding(instantiate(problem, entry.candidate))
        except ArtifactError:
            raise
        except KernelwrightError as error:
            self.disable(str(error))
            return
        self._read = self._slots.reader(self.__dict__["_kernel"].names)
        self.__dict__["_kernel"].refresh(self._read())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        why_not = self._why_not(args, kwargs)
        if not why_not and self._read is not None:
            kernel: Binding = self.__dict__["_kernel"]
            try:
                kernel.refresh(self._read())
                with torch.no_grad():
                    result = kernel.module(*args, **kwargs)
                self.answered.count("")
                return result
            except KernelwrightError as error:
                self.disable(str(error))
                why_not = _DISABLED
        self.answered.count(why_not)
        return self.__dict__["original"](*args, **kwargs)

    def train(self, mode: bool = True) -> "Deployed":
        super().train(mode)
        self.__dict__["original"].training = mode
        return self

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        # Inside torch.inference_mode() what is written into a weight does not count as a new version of it.
        loaded = super().load_state_dict(*args, **kwargs)
        if self._read is not None:
            self.__dict__["_kernel"].forget()
        return loaded

    def save(self, path: str | Path) -> Path:
        """Writes the artifact folder that `kernelwright.load` reads. Weights are not part of it."""
        return save_artifact(path, self.problem, self.entry)

    def disable(self, reason: str) -> None:
        """Uses the original from now on and says why."""
        self.disabled = reason
        warnings.warn(
            f"kernelwright: the kernel {self.entry.candidate.title} of {self.problem.name} is disabled: {reason}",
            RuntimeWarning,
            stacklevel=3,
        )

    def _why_not(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why the kernel may not answer this call; empty where it may."""
        if self.disabled or self._read is None:
            return _DISABLED
        training = self.problem.numerics.training
        if any([module.training is not training for module in self._slots.modules]):
            return f"the kernel was proven in {'train' if training else 'eval'} mode"
        if not self._slots.intact():
            return "a submodule was replaced, or has hooks or parametrizations"
        leaves = self._contract.leaves(args, kwargs)
        if leaves is None:
            return "outside the contract: other shapes, dtypes, device, arguments or autocast, or traced"
        if torch.is_grad_enabled() and self._wants_gradients(leaves):
            if not self._said_gradients:
                self._said_gradients = True
                warnings.warn(
                    "kernelwright: called with gradients enabled, so the original runs; "
                    "call it under torch.no_grad() or torch.inference_mode() to use the kernel",
                    RuntimeWarning,
                    stacklevel=4,
                )
            return "gradients are enabled"
        return ""

    def _wants_gradients(self, leaves: list[torch.Tensor]) -> bool:
        original: nn.Module = self.__dict__["original"]
        return any(leaf.requires_grad for leaf in leaves) or any(
            parameter.requires_grad for parameter in original.parameters()
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["original"], name)

    def __reduce__(self) -> tuple[Any, ...]:
        return drop_in, (self.__dict__["original"], self.problem, self.entry)

    def extra_repr(self) -> str:
        return f"{self.entry.candidate.title} for {self.problem.name}: {self.answered}"
