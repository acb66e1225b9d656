"""The oracle in pieces, where a problem is large: along the first dimension of inputs and results, if its rows are
shown to be independent of one another.

Shown, for each case anew, and not assumed: in float64 two groups of rows give together what each gives alone; and every
row of the whole result, which the reference computes at once as its user runs it, lies within the budget of what the
oracle finds for that row's piece (a batch norm in training, or a maximum over the batch, does not). Where it is not
shown the oracle runs as a whole.

Where time runs out, rows are sampled: those that are left are held to the reference as it runs, within twice what the
sampled ones were granted, and the answer's note says so.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.budget import WOBBLE, Allowance, least, reach, row_length
from kernelwright.judge.examination import examine
from kernelwright.judge.oracle import Truth

Exact = Callable[[Sequence[torch.Tensor], float], Truth]
"""The oracle for some rows, moved by so much."""
Grant = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], Allowance]
"""budget.allowance under the problem's conditions."""

_AGREE = 1e-9
_LOOSENED = 2.0


@dataclass(frozen=True)
class Pieces:
    """When the oracle runs in pieces, and how large they are."""

    whole_bytes: int = 32 << 20
    """Inputs, results and the largest tensor between them, up to which it runs as a whole."""
    piece_bytes: int = 4 << 20
    exact_s: float = 30.0
    """After so long the rest of an answer's rows is no longer asked for."""
    fewest: int = 4
    """Pieces that are asked for in any case."""
    worthwhile: int = 8
    """Fewer pieces save little memory, and to show that they may be taken costs as much as the answer."""
    few_bytes: int = 256 << 20
    """As whole_bytes, where pieces would be few."""


@dataclass(frozen=True)
class Found:
    """An answer in pieces."""

    wanted: tuple[Allowance, ...]
    note: str = ""


def in_rows(
    leaves: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    exact: Exact,
    grant: Grant,
    *,
    work_bytes: int,
    pieces: Pieces,
) -> Found | None:
    """The answer for `leaves`, to which the reference itself says `own`; None where rows are not independent."""
    count = own[0].shape[0] if own and own[0].dim() else 0
    if count < 2 or not all(item.dim() and item.shape[0] == count and not item.is_complex() for item in own):
        return None
    each = max(1, pieces.piece_bytes * count // max(work_bytes, 1))
    if count < each * pieces.worthwhile and work_bytes <= pieces.few_bytes:
        return None
    split = next((split for split in _splits(leaves, count) if _independent(leaves, split, count, each, exact)), None)
    if split is None:
        return None
    filled = [
        Allowance(
            torch.empty(item.shape, dtype=_wide(item), device=item.device),
            item,
            torch.empty(item.shape, dtype=torch.float32, device=item.device),
        )
        for item in own
    ]
    spans = [slice(start, min(start + each, count)) for start in range(0, count, each)]
    random.shuffle(spans)
    until = time.monotonic() + pieces.exact_s
    note, done = "", 0
    for span in spans:
        if done >= pieces.fewest and time.monotonic() > until:
            break
        done += 1
        rows = _rows(leaves, split, span)
        truth, moved = exact(rows, 0.0), exact(rows, WOBBLE)
        note = note or truth.note
        if any(item is not None for item in truth.selections):
            return None
        for whole, value, shaken in zip(filled, truth.outputs, moved.outputs, strict=True):
            mine = whole.own[span]
            if value.shape != mine.shape or not _near(mine, value, shaken, grant, truth.reduction_length):
                return None
            made = grant(value, shaken, mine, truth.reduction_length)
            whole.value[span], whole.allowed[span] = made.value, made.allowed
    asked, left = spans[:done], spans[done:]
    for whole in filled if left else ():
        shares = (_widest(Allowance(whole.value[span], whole.own[span], whole.allowed[span])) for span in asked)
        share = max(shares, default=0.0)
        for span in left:
            value = whole.own[span].to(whole.value.dtype)
            whole.value[span] = value
            loose = (
                _LOOSENED * share * reach(value)
                if value.is_floating_point()
                else torch.zeros_like(value, dtype=torch.float32)
            )
            whole.allowed[span] = loose + torch.finfo(torch.float32).tiny
    if left:
        rows = sum(span.stop - span.start for span in asked)
        sampled = (
            f"the oracle was asked for {rows} of {count} rows, drawn at random; the others are held to the reference "
            "as it runs"
        )
        note = f"{sampled}; {note}" if note else sampled
    return Found(tuple(filled), note)


def _near(mine: torch.Tensor, value: torch.Tensor, shaken: torch.Tensor, grant: Grant, reduction: int) -> bool:
    """Whether a result lies within what rows grant of themselves, without its own error: that must not hide a
    dependence."""
    if value.is_floating_point():
        length = row_length(value.shape)
        near = (mine.double() - value).abs_() <= least(value, shaken, mine.dtype)
        doubtful = ~near.reshape(-1, length).all(1)
        if not bool(doubtful.any()):
            return True
        # What a row of the budget grants depends on no other.
        mine, value, shaken = (item.reshape(-1, length)[doubtful] for item in (mine, value, shaken))
    return not examine(mine, grant(value, shaken, value.to(mine.dtype), reduction)).wrong


def _widest(item: Allowance) -> float:
    """The largest that is allowed, as a part of what its row reaches."""
    if not item.value.is_floating_point() or not item.value.numel():
        return 0.0
    share = item.allowed / reach(item.value).clamp_min_(torch.finfo(item.own.dtype).tiny)
    return float(share.nan_to_num_(0, 0, 0).max())


def _splits(leaves: Sequence[torch.Tensor], count: int) -> list[tuple[int, ...]]:
    """Which inputs may have the rows: all of that length, else the first alone (the factors of a square product)."""
    fitting = tuple(place for place, leaf in enumerate(leaves) if leaf.dim() and leaf.shape[0] == count)
    return [fitting, fitting[:1]] if len(fitting) > 1 else [fitting] if fitting else []


def _independent(leaves: Sequence[torch.Tensor], split: tuple[int, ...], count: int, each: int, exact: Exact) -> bool:
    """Whether two groups of rows give together what each gives alone."""
    few = max(1, min(each // 2, count // 4))
    first = random.randrange(count - 2 * few + 1)
    second = random.randrange(first + few, count - few + 1)
    groups = [_rows(leaves, split, slice(start, start + few)) for start in (first, second)]
    both = [
        torch.cat([one, two]) if place in split else one for place, (one, two) in enumerate(zip(*groups, strict=True))
    ]
    try:
        joint = exact(both, 0.0).outputs
        apart = [exact(group, 0.0).outputs for group in groups]
    except Exception:  # the user's code may be written for one length alone, and say so in any way
        return False
    return all(
        len(one) == len(two) == few and _agree(whole, torch.cat([one, two]))
        for whole, one, two in zip(joint, *apart, strict=True)
        if whole.dim()
    )


def _agree(whole: torch.Tensor, parts: torch.Tensor) -> bool:
    if whole.shape != parts.shape:
        return False
    if not whole.is_floating_point():
        return torch.equal(whole, parts)
    finite = whole.abs().nan_to_num(0, 0, 0)
    scale = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(whole, parts, rtol=_AGREE, atol=_AGREE * _AGREE * scale, equal_nan=True)


def _rows(leaves: Sequence[torch.Tensor], split: tuple[int, ...], span: slice) -> list[torch.Tensor]:
    return [leaf[span] if place in split else leaf for place, leaf in enumerate(leaves)]


def _wide(item: torch.Tensor) -> torch.dtype:
    return torch.float64 if item.is_floating_point() else item.dtype
