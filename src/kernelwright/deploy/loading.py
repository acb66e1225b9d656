"""An artifact back into a model, with a check of its numbers where the machine is not the one it was proven on."""

from pathlib import Path

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.deploy.artifact import read_artifact
from kernelwright.deploy.binding import Binding, Slots, instantiate
from kernelwright.deploy.module import Answered, Deployed, drop_in
from kernelwright.graph import build_reference
from kernelwright.problems import arguments
from kernelwright.records import Case, Entry, Problem, unflatten
from kernelwright.targets import environment

CHECKED = (Case("nominal", seed=11), Case("signed", seed=12), Case("scaled_small", seed=13))
"""Few and plain: the judge has proven the kernel, this asks only whether it survived the move."""


def load(path: str | Path, model: nn.Module, trust: bool = False) -> Deployed:
    """`model` with the kernel saved at `path`.

    On another machine, or after an upgrade of anything in its environment, the kernel is compared with the model
    once; where it differs it is disabled with a warning that names it, and the model runs as it was.
    Raises ArtifactError for a damaged artifact, a foreign one without trust=True, or one of another model.
    """
    problem, entry = read_artifact(path, trust)
    deployed = drop_in(model, problem, entry)
    if not deployed.disabled and moved(entry):
        difference = worst_difference(problem, deployed.original, deployed)
        deployed.answered = Answered()  # the user's calls are counted, not ours
        if not deployed.disabled and not difference <= 1.0:
            deployed.disable(
                f"here its results differ from the model's by {difference:.3g} times what rounding explains"
            )
    return deployed


def moved(entry: Entry) -> bool:
    """Whether the verdict was reached in another environment than this one."""
    device = entry.verdict.environment.facts.device
    return environment(device).digest != entry.verdict.environment.digest


def moved_well(problem: Problem, entry: Entry) -> bool:
    """Whether the kernel may be used here: it was proven here, or it agrees with its reference once more."""
    if not moved(entry):
        return True
    reference = build_reference(problem)
    kernel = Binding(instantiate(problem, entry.candidate))
    kernel.refresh(Slots(reference).reader(kernel.names)())
    return worst_difference(problem, reference, kernel.module) <= 1.0


def worst_difference(problem: Problem, expected: nn.Module, found: nn.Module) -> float:
    """The largest difference between two modules over CHECKED, in units of what rounding explains.

    Rounding is taken as 64 eps of the output's dtype, relative to the largest magnitude along the last dimension.
    """
    worst = 0.0
    with torch.no_grad():
        for case in CHECKED:
            one, other = (unflatten(problem.signature.arguments, arguments(problem, case)) for _ in range(2))
            want = _tensors(expected(*one["args"], **one["kwargs"]))
            have = _tensors(found(*other["args"], **other["kwargs"]))
            if len(want) != len(have):
                return float("inf")
            worst = max([worst, *map(_difference, want, have)])
    return worst


def _difference(want: torch.Tensor, have: torch.Tensor) -> float:
    if want.shape != have.shape or want.dtype != have.dtype:
        return float("inf")
    if want.numel() == 0:
        return 0.0
    if not want.is_floating_point():
        return 0.0 if torch.equal(want, have) else float("inf")
    if not torch.equal(want.isnan(), have.isnan()):
        return float("inf")
    wide, other = want.double().nan_to_num(), have.double().nan_to_num()
    scale = wide.abs().amax(dim=-1, keepdim=True) if wide.dim() else wide.abs()
    allowed = 64 * torch.finfo(want.dtype).eps * scale.clamp_min(torch.finfo(want.dtype).tiny)
    return ((wide - other).abs() / allowed).max().item()


def _tensors(value: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
