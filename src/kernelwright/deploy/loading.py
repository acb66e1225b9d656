"""An artifact back into a model, with a check of its numbers where the machine is not the one it was proven on."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from kernelwright.deploy.artifact import read_artifact
from kernelwright.deploy.module import Deployed, drop_in
from kernelwright.problems import arguments
from kernelwright.records import Case, Problem, unflatten
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
    if environment(problem.signature.device).digest != entry.verdict.environment.digest:
        difference = worst_difference(deployed, problem)
        if not difference <= 1.0:
            deployed.disable(
                f"here its results are {difference:.3g} times further from the model's than rounding explains"
            )
    return deployed


def worst_difference(deployed: Deployed, problem: Problem) -> float:
    """The largest difference between kernel and model over CHECKED, in units of what rounding explains.

    Rounding is taken as 64 eps of the output's dtype, relative to the largest magnitude along the last dimension.
    """
    worst = 0.0
    with torch.no_grad():
        for case in CHECKED:
            call = unflatten(problem.signature.arguments, arguments(problem, case))
            expected = deployed.__dict__["original"](*call["args"], **call["kwargs"])
            found = deployed(*call["args"], **call["kwargs"])
            if deployed.disabled:
                return 0.0
            for want, have in zip(_tensors(expected), _tensors(found), strict=True):
                worst = max(worst, _difference(want, have))
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


def _tensors(value: object) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))
