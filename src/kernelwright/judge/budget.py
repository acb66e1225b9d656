"""How far from the oracle a result may lie, element by element.

    allowed = FACTOR * (e + R)                                    what evaluating this reference costs anyone
            + eps(float32) * (ULPS + min(sqrt(K), LANES)) * max(|y|, S)    another order of the longest sum
            + eps(dtype) * max(|y|, S)     where the result's dtype is narrower: another place to round
            + tiny(dtype)                                         underflow flushed to zero

with y the oracle's value, e the larger of two errors of this element: the reference as its user runs it, and a Monte
Carlo run of the oracle in which every operation and every input is moved by half a unit of float32; R the row's root
mean square of e, outliers cut; S the row's root mean square of y; both over what is not zero, since a ReLU's zeros say
nothing of the numbers they stand for. K is the reference's longest sum. A row is the last dimension, or as many
trailing ones as make 64 elements.

Why so: e alone is a matter of luck (a reference may hit the oracle exactly), R is not. The Monte Carlo run knows of
cancellation and of steep functions (Parker 1997), but not that summing K numbers one after the other loses sqrt(K)
roundings of the partial sums (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2), hence the second
line; sums longer than LANES squared are expected to be blocked, as every vector unit does. Where addends are alike
(constant, sorted, heavy-tailed and one-hot inputs) roundings are alike too and add up: there K/2, the bound that no
order exceeds, takes the place of the root.

Nothing is absolute: a result scaled by 1e-6 is held to 1e-6 of the error. A step in float16, bfloat16 or TF32 inside a
float32 problem costs 2**-11 to 2**-9 of the row's scale: 20 to 1000 times what is allowed (docs/judge.md has the
table).

A gradient jumps where a decision in forward falls otherwise, and any rounding may turn one: how far it jumps where that
is near counts as an error of the element (Reference finds it), and of that element alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy
import torch

from kernelwright.judge.oracle import Truth

FACTOR = 12.0
ULPS = 8.0
LANES = 256.0
WOBBLE = 2.0**-24
"""Half a unit in the last place of float32, which is what one rounding costs at most."""
_ROW = 64
_SLICE = 1 << 16
"""Elements for which allowances are worked out at once."""
# Beyond this many times the row's median an error is an outlier, a flipped decision say, and must not widen the row.
_OUTLIER = 32.0
_TF32_EPS = 2.0**-10
# Of alike addends no more than this many in one running sum.
_ALIKE = 2048


@dataclass(frozen=True)
class Allowance:
    """What one output may be. All tensors have the output's shape."""

    value: torch.Tensor
    """The oracle's, float64; integers and booleans as they are."""
    own: torch.Tensor
    """The reference's own result as its user runs it, in the dtype that is expected of the candidate."""
    allowed: torch.Tensor
    """float32. Largest distance from `value`; infinite where the value is undecided."""
    choice: "Choice | None" = None
    """For indices that were chosen by comparing; `allowed` is then of no account."""

    @property
    def undecided(self) -> float:
        """The share of elements about which the reference says nothing: its decisions hang on a rounding."""
        return counted(torch.isinf, self.allowed) / max(self.allowed.numel(), 1)


@dataclass(frozen=True)
class Choice:
    """Indices are right if what they point at lies within `slack` of what the oracle's point at."""

    values: torch.Tensor
    slack: torch.Tensor
    dim: int
    kept: bool


def allowances(
    truth: Truth,
    moved: Truth,
    own: tuple[torch.Tensor, ...],
    *,
    tf32: bool = False,
    alike: bool = False,
    kinks: Sequence[torch.Tensor | None] | None = None,
) -> tuple[Allowance, ...]:
    """One allowance for each output. `moved` is the Monte Carlo run of size WOBBLE, `own` the reference as run.

    `tf32`: the user lets sums of products run in TF32. `alike`: many addends are about equal. `kinks`: for outputs that
    jump where a decision falls otherwise, by how much: counts as an error.
    """
    made = []
    for place, (value, shaken, mine) in enumerate(zip(truth.outputs, moved.outputs, own, strict=True)):
        kink = kinks[place] if kinks else None
        found = allowance(value, shaken, mine, truth.reduction_length, tf32=tf32, alike=alike, kink=kink)
        chosen = truth.selections[place] if truth.selections else None
        again = moved.selections[place] if moved.selections else None
        if chosen is not None and again is not None:
            # What is compared may itself be computed: it is granted what a float32 result of its own would be.
            held = allowance(chosen.values, again.values, chosen.values.float(), truth.reduction_length, tf32=tf32)
            found = replace(found, choice=Choice(chosen.values, held.allowed, chosen.dim, chosen.kept))
        made.append(found)
    return tuple(made)


def counted(is_so: Callable[[torch.Tensor], torch.Tensor], numbers: torch.Tensor) -> int:
    """Of how many numbers it is so. By slices: what a predicate makes on its way is as large as what it looks at."""
    return int(sum(is_so(part).sum() for part in numbers.reshape(-1).split(_SLICE)))


def wider(one: Allowance, two: Allowance) -> Allowance:
    """What either grants, of two for one output."""
    choice = one.choice
    if choice is not None and two.choice is not None:
        choice = replace(choice, slack=torch.maximum(choice.slack, two.choice.slack))
    return replace(one, allowed=torch.maximum(one.allowed, two.allowed), choice=choice)


def allowance(
    value: torch.Tensor,
    moved: torch.Tensor,
    own: torch.Tensor,
    reduction_length: int,
    *,
    tf32: bool = False,
    alike: bool = False,
    kink: torch.Tensor | None = None,
) -> Allowance:
    """The allowance of one output; see the top of this file."""
    if value.is_complex():
        made = allowance(
            torch.view_as_real(value), torch.view_as_real(moved), torch.view_as_real(own), reduction_length, tf32=tf32
        )
        # A complex number is held to the sum of what its parts are granted.
        return Allowance(value, own, made.allowed.sum(-1))
    if not value.is_floating_point():
        same = (value == moved) & (value == own)
        open_ended = torch.full(value.shape, math.inf, dtype=torch.float32)
        return Allowance(value, own, torch.where(same, torch.zeros_like(open_ended), open_ended))
    rows = row_length(value.shape)
    length = max(1, _SLICE // rows) * rows
    held, allowed = (
        torch.empty_like(value).reshape(-1),
        torch.empty(value.numel(), dtype=torch.float32, device=value.device),
    )
    values, shaken, mine = value.reshape(-1), moved.reshape(-1), own.reshape(-1)
    kinks = None if kink is None else kink.reshape(-1)
    order = min(reduction_length, _ALIKE) / 2 if alike else min(math.sqrt(reduction_length), LANES)
    for start in range(0, value.numel(), length):  # by rows, so that what lies between stays in the caches
        part = slice(start, start + length)
        near = None if kinks is None else kinks[part]
        held[part], allowed[part] = _granted(values[part], shaken[part], mine[part], near, rows, order, tf32)
    return Allowance(held.reshape(value.shape), own, allowed.reshape(value.shape))


def _granted(
    value: torch.Tensor,
    moved: torch.Tensor,
    own: torch.Tensor,
    kink: torch.Tensor | None,
    rows: int,
    order: float,
    tf32: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of whole rows, all flat: what is right, and what it is granted."""
    # What the oracle holds may lie beyond the dtype; there the right answer is infinite.
    limit = torch.finfo(own.dtype)
    if not bool(value.abs().max() <= limit.max):
        value = torch.where(value.abs() > limit.max, value.sign() * math.inf, value)
    error = (own.double() - value).abs_()
    torch.maximum(error, (moved - value).abs_(), out=error)
    if kink is not None:
        torch.maximum(error, kink, out=error)
    by_row = _finite(error).reshape(-1, rows)
    typical = _root_mean_square(torch.minimum(by_row, _median(by_row).mul_(_OUTLIER)))
    narrow = limit.eps > torch.finfo(torch.float32).eps
    eps = _TF32_EPS if tf32 else min(limit.eps, torch.finfo(torch.float32).eps)
    allowed = reach(value.reshape(-1, rows)).mul_(eps * (ULPS + order) + limit.eps * narrow)
    allowed.add_(by_row, alpha=FACTOR).add_(typical, alpha=FACTOR).add_(limit.tiny)
    return value, allowed.clamp_(max=torch.finfo(torch.float32).max).to(torch.float32).reshape(-1)


def least(value: torch.Tensor, moved: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What `allowance` grants at the least, whatever else is in the row and however long the sums are: many times as
    fast, and where a result lies within it nothing more need be known."""
    eps = min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    return (moved - value).abs_().mul_(FACTOR).add_(value.abs(), alpha=eps * ULPS)


def reach(value: torch.Tensor) -> torch.Tensor:
    """max(|y|, S) of each element; what is not finite counts as zero."""
    size = _finite(value.abs()).reshape(-1, row_length(value.shape))
    return torch.maximum(size, _root_mean_square(size)).reshape(value.shape)


def _finite(numbers: torch.Tensor) -> torch.Tensor:
    """The numbers, in place; 0 for what is not finite."""
    return numbers if bool(torch.isfinite(numbers.sum())) else numbers.nan_to_num_(0.0, 0.0, 0.0)


def _median(rows: torch.Tensor) -> torch.Tensor:
    """Of each row of numbers that are not negative, over what is not 0: the lower one of two; 0 where all are 0."""
    zeros = (rows == 0).sum(dim=1, keepdim=True)
    place = zeros + (rows.shape[1] - zeros - 1).clamp_(min=0).div_(2, rounding_mode="floor")
    place.clamp_(max=rows.shape[1] - 1)
    if rows.device.type != "cpu":
        return rows.sort(dim=1).values.gather(1, place)
    plain, where = rows.numpy(), place.numpy()
    # NumPy's selection takes a tenth of the time of torch's.
    if where.size and (where == where.flat[0]).all():
        found = numpy.partition(plain, int(where.flat[0]), axis=1)
    else:
        found = numpy.sort(plain, axis=1)
    return torch.from_numpy(numpy.take_along_axis(found, where, axis=1))


def _root_mean_square(rows: torch.Tensor) -> torch.Tensor:
    """Of each row of numbers that are not negative, over what is not 0; 0 where all are 0."""
    some = (rows > 0).sum(dim=1, keepdim=True).clamp_(min=1)
    return rows.square().sum(dim=1, keepdim=True).div_(some).sqrt_()


def row_length(shape: torch.Size | tuple[int, ...]) -> int:
    """Elements that share one scale: trailing dimensions until there are 64 elements, the whole of a smaller tensor."""
    length = 1
    for size in reversed(shape):
        if length >= _ROW:
            break
        length *= size
    return max(length, 1)
