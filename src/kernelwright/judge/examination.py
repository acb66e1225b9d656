"""Compares a tensor that came back with what was allowed. Runs in the judge's process only."""

import math
from dataclasses import replace

import numpy
import torch

from kernelwright.judge.budget import Allowance, Choice
from kernelwright.judge.evidence import Difference

_SLICE = 1 << 20


def examine(got: torch.Tensor, wanted: Allowance) -> Difference:
    """`got` has the shape and dtype of `wanted.own`.

    NaN is expected where oracle and reference both have it; where one has, either is accepted; likewise an infinity
    and its sign. Elsewhere the distance from the oracle must be within `wanted.allowed`.
    """
    count = got.numel()
    if count == 0:
        return Difference(count=0)
    if count > _SLICE and wanted.choice is None:
        return _in_slices(got, wanted)
    value, own, allowed = wanted.value, wanted.own, wanted.allowed
    if value.is_complex():
        both = torch.view_as_real(wanted.value), torch.view_as_real(own)
        spread = allowed.unsqueeze(-1).expand(both[0].shape)
        return examine(torch.view_as_real(got), Allowance(*both, spread))
    if wanted.choice is not None:
        return _report(got, value, _badly_chosen(got, value, wanted.choice), torch.zeros_like(allowed), allowed)
    if not value.is_floating_point():
        undecided = torch.isinf(allowed)
        bad = (got != value) & ~undecided
        return _report(got, value, bad, torch.zeros_like(allowed), allowed, undecided)
    result = got.double()
    excess = (result - value).abs_().div_(allowed)
    worst, place = excess.reshape(-1).max(0)
    if worst <= 1.0:  # the usual end: everything finite and near; NaN and infinities fail this comparison
        return _placed(result, value, allowed, int(place), worst=float(worst))
    close = torch.isfinite(value) & torch.isfinite(got)
    excess = torch.where(close, excess, 0.0)
    lost = torch.isnan(value) & torch.isnan(own) & ~torch.isnan(got)
    alike_value = _alike(result, value)
    alike_own = _alike(result, own.double())
    strange = ~(alike_value | alike_own) & ~lost
    bad = strange | lost | (close & (excess > 1.0))
    # The reference itself may overflow where the oracle does not: being as finite as the reference is then enough.
    return _report(result, value, bad, excess, allowed, torch.isinf(allowed), int(lost.sum()), int(strange.sum()))


def _in_slices(got: torch.Tensor, wanted: Allowance) -> Difference:
    """The same for a large tensor, without doubles of all of it."""
    flat = [tensor.reshape(-1) for tensor in (got, wanted.value, wanted.own, wanted.allowed)]
    found: Difference | None = None
    for start in range(0, got.numel(), _SLICE):
        mine, value, own, allowed = (tensor[start : start + _SLICE] for tensor in flat)
        part = examine(mine, Allowance(value, own, allowed))
        part = replace(part, index=(start + part.index[0],))
        found = part if found is None else _joined(found, part)
    assert found is not None
    return replace(found, index=_unravelled(found.index[0], got.shape))


def _joined(one: Difference, two: Difference) -> Difference:
    """Of two slices; the place is that of an element of another kind, else of the largest excess."""
    shown = two if (bool(two.strange + two.lost), two.worst) > (bool(one.strange + one.lost), one.worst) else one
    return replace(
        shown,
        count=one.count + two.count,
        wrong=one.wrong + two.wrong,
        lost=one.lost + two.lost,
        strange=one.strange + two.strange,
        undecided=one.undecided + two.undecided,
        worst=max(one.worst, two.worst),
    )


def alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two results of one shape are the same bits, NaN equal to NaN."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    same = first == second
    if first.is_floating_point() or first.is_complex():
        same = same | (torch.isnan(first) & torch.isnan(second))
    return bool(same.all())


def _alike(got: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Of one kind: both finite, both NaN, or the same infinity."""
    finite = torch.isfinite(got) & torch.isfinite(other)
    return finite | (torch.isnan(got) & torch.isnan(other)) | (torch.isinf(got) & (got == other))


def _badly_chosen(got: torch.Tensor, value: torch.Tensor, choice: Choice) -> torch.Tensor:
    """Indices that are out of range, that point at another value than they should, or that occur twice in a row."""
    size = choice.values.shape[choice.dim] if choice.values.dim() else 1
    outside = (got < 0) | (got >= size)
    if not choice.values.dim():
        return outside
    lift = (lambda item: item) if choice.kept else (lambda item: item.unsqueeze(choice.dim))
    mine, theirs = lift(got.clamp(0, size - 1)), lift(value)
    pick = lambda source, index: source.gather(choice.dim, index)
    found, best = pick(choice.values, mine), pick(choice.values, theirs)
    slack = torch.maximum(pick(choice.slack, mine), pick(choice.slack, theirs))
    equal = (found == best) | (torch.isnan(found) & torch.isnan(best))  # one infinity less another is no distance
    bad = ~(((found - best).abs() <= slack) | equal)
    ordered = mine.sort(choice.dim).values
    if ordered.shape[choice.dim] > 1 and bool((ordered.diff(dim=choice.dim) == 0).any()):
        bad |= (ordered.diff(dim=choice.dim) == 0).any(choice.dim, keepdim=True)
    return (bad if choice.kept else bad.squeeze(choice.dim)) | outside


def _report(
    got: torch.Tensor,
    value: torch.Tensor,
    bad: torch.Tensor,
    excess: torch.Tensor,
    allowed: torch.Tensor,
    undecided: torch.Tensor | None = None,
    lost: int = 0,
    strange: int = 0,
) -> Difference:
    wrong = int(bad.sum())
    # The place shown is the first wrong element of another kind, else the largest excess.
    rank = torch.where(bad & (excess <= 1.0), math.inf, excess) if wrong else excess
    place = int(rank.reshape(-1).argmax())
    return replace(
        _placed(got, value, allowed, place, worst=float(excess.max())),
        wrong=wrong,
        lost=lost,
        strange=strange,
        undecided=0 if undecided is None else int(undecided.sum()),
    )


def _placed(got: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor, place: int, *, worst: float) -> Difference:
    """What stands at `place`, with nothing wrong."""
    return Difference(
        count=got.numel(),
        index=_unravelled(place, got.shape),
        expected=float(value.reshape(-1)[place]),
        got=float(got.reshape(-1)[place]),
        allowed=float(allowed.reshape(-1)[place]),
        worst=worst,
    )


def _unravelled(place: int, shape: torch.Size) -> tuple[int, ...]:
    return tuple(int(part) for part in numpy.unravel_index(place, tuple(shape))) if shape else ()
