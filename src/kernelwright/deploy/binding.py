"""A candidate's module on the user's own weights: shared, never copied, and prepared again when they change."""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import nn

from kernelwright.errors import ArtifactError
from kernelwright.graph import load_text
from kernelwright.records import Candidate, Problem
from kernelwright.targets.program import load_candidate
from kernelwright.targets.surroundings import kept


def instantiate(problem: Problem, candidate: Candidate) -> nn.Module:
    """The candidate's module with weights of its own, which a Binding replaces by the user's. What loading it changes
    for the whole process (threads, default dtype, random states) is put back."""
    reference = load_text(problem.source, problem.name, import_paths=problem.import_paths)
    init_args = reference.get_init_inputs() if hasattr(reference, "get_init_inputs") else []
    with kept():
        return load_candidate(candidate, init_args, training=problem.numerics.training).requires_grad_(False)


class Slots:
    """Where the weights of a live module are, found once so that reading them costs a dictionary look-up each."""

    def __init__(self, module: nn.Module) -> None:
        self.modules = tuple(module.modules())
        self._links = tuple(
            (owner._modules, name, child) for owner in self.modules for name, child in owner._modules.items()
        )
        self._places = {
            f"{path}.{leaf}" if path else leaf: (table, leaf)
            for path, owner in module.named_modules(remove_duplicate=False)
            for table in (owner._parameters, owner._buffers)
            for leaf, tensor in table.items()
            if tensor is not None
        }
        self._tables = tuple(
            table
            for owner in self.modules
            for table in (owner._parameters, owner._buffers, owner._forward_hooks, owner._forward_pre_hooks)
        )
        self._counts = [*map(len, self._tables)]

    def intact(self) -> bool:
        """Whether every submodule is still the one it was, with the weights it had (a parametrization takes one away)
        and no hook come or gone that could change what it computes."""
        return [*map(len, self._tables)] == self._counts and all(
            table.get(name) is child for table, name, child in self._links
        )

    def reader(self, names: Sequence[str]) -> Callable[[], list[torch.Tensor]]:
        """A function that gives the tensors called `names` as they are at its call. Raises ArtifactError."""
        unknown = [name for name in names if name not in self._places]
        if unknown:
            raise ArtifactError(f"the kernel needs the weight {unknown[0]!r}, which the model does not have")
        places = [self._places[name] for name in names]
        return lambda: [table[leaf] for table, leaf in places]  # type: ignore[misc]


class Binding:
    """Keeps a candidate's module on tensors that belong to somebody else.

    `refresh()` compares their addresses, and where the candidate derives tables from them (`prepare`) their versions
    too, so that a replaced, moved or updated weight is noticed before the next call.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.names = tuple(
            name
            for named in (module.named_parameters, module.named_buffers)
            for name, _ in named(remove_duplicate=False)
        )
        self._own = Slots(module).reader(self.names)()
        self._prepare: Callable[[], None] | None = getattr(module, "prepare", None)
        self._seen: tuple[object, ...] | None = None
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Has the next refresh take all weights for changed."""
        self._seen = None

    def check(self, tensors: Sequence[torch.Tensor]) -> None:
        """Raises ArtifactError where a tensor, in the order of `names`, is not what the kernel was proven for."""
        for name, given, own in zip(self.names, tensors, self._own, strict=True):
            if (given.shape, given.dtype, given.device) != (own.shape, own.dtype, own.device):
                raise ArtifactError(
                    f"the weight {name!r} is {given.dtype} {tuple(given.shape)} on {given.device} in the model, "
                    f"the kernel was proven for {own.dtype} {tuple(own.shape)} on {own.device}"
                )

    def refresh(self, tensors: Sequence[torch.Tensor]) -> None:
        """Makes the module see `tensors`, in the order of `names`. Raises ArtifactError where they do not fit."""
        mark: tuple[object, ...] = tuple([tensor.data_ptr() for tensor in tensors])
        if self._prepare is not None:
            # A tensor made in inference mode counts no versions: what is derived from it is derived for each call.
            mark += tuple([object() if tensor.is_inference() else tensor._version for tensor in tensors])
        if mark == self._seen:
            return
        with self._lock:
            if mark == self._seen:
                return
            self.check(tensors)
            for name, tensor in zip(self.names, tensors, strict=True):
                path, _, leaf = name.rpartition(".")
                owner = self.module.get_submodule(path)
                table = owner._parameters if leaf in owner._parameters else owner._buffers
                table[leaf] = tensor  # type: ignore[assignment]
            if self._prepare is not None:
                with torch.no_grad():
                    self._prepare()
            self._seen = mark
