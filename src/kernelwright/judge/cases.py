"""Which cases a candidate meets, and in which order. Seeds are secret; only what a case is made of may be told."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelwright.records import Case, Problem, Range

FAMILIES = ("signed", "heavy_tailed", "one_hot", "scaled_large", "scaled_small", "permuted", "sorted", "constant")
"""In the order of how often they unmask a shortcut."""
PROBES = ("nan_probe", "inf_probe")
_LAYOUTS = ("strided", "offset")
_WEIGHTS = ("scaled", "permuted")


@dataclass(frozen=True)
class Pool:
    """A problem's secret cases. `turn` picks among them, so that not every candidate meets the same."""

    problem: Problem
    seeds: tuple[int, ...]
    weighted: bool
    """Whether the reference has weights that can change."""

    @classmethod
    def draw(cls, problem: Problem, count: int, *, weighted: bool) -> "Pool":
        """A new pool of `count` seeds from the operating system's randomness."""
        return cls(problem, tuple(secrets.randbits(48) for _ in range(count)), weighted)

    def plan(self, turn: int) -> tuple[Case, ...]:
        """The cases of one candidate: nominal first, then families, weights, sizes, layouts, probes; the last one is
        nominal again with the first weights, which a candidate that keeps stale tables gets wrong."""
        seed = lambda place: self.seeds[(turn + place) % len(self.seeds)]
        nominal = Case("nominal", seed(0), hidden=True)
        numbers = floating(self.problem)
        cases = [nominal]
        if numbers:
            cases += [Case(family, seed(place), hidden=True) for place, family in enumerate(FAMILIES)]
        if self.weighted:
            cases += [Case("nominal", seed(1), hidden=True, weights=variant) for variant in _WEIGHTS]
            if numbers:  # under the last of them: a result that the author's inputs never move tells of no weights
                cases.append(Case("scaled_large", seed(1), hidden=True, weights=_WEIGHTS[-1]))
        cases.append(replace(nominal, seed=seed(2)))
        cases += [Case("nominal", seed(place), sizes, True) for place, sizes in enumerate(sizes_of(self.problem))]
        cases += [Case("nominal", seed(0), hidden=True, layout=layout) for layout in layouts(self.problem)]
        if numbers:
            cases += [Case(family, seed(1), hidden=True) for family in PROBES]
        return tuple(cases)

    def survey(self) -> tuple[Case, ...]:
        """The cases that gate, and before each change of weights the same inputs under the original ones. The
        nominal ones come first: a verdict says the most about them."""
        plan = [case for case in self.plan(0) if case.family not in PROBES and case.layout == "contiguous"]
        order: list[Case] = []
        for case in sorted(plan, key=lambda case: case.family != "nominal"):
            order += [replace(case, weights="original"), case]
        return tuple(dict.fromkeys(order))

    def fresh(self, count: int) -> tuple[Case, ...]:
        """Cases nobody could know before now: nominal and a family by turns."""
        families = ["nominal", *(["signed", "heavy_tailed"] if floating(self.problem) else [])]
        picks = [families[0] if place % 2 == 0 else secrets.choice(families) for place in range(count)]
        return tuple(Case(family, secrets.randbits(48), hidden=True) for family in picks)


def floating(problem: Problem) -> bool:
    """Whether any input is a quantity that the families can change."""
    return any(spec.dtype.startswith(("float", "bfloat")) for spec in problem.signature.tensors)


def layouts(problem: Problem) -> tuple[str, ...]:
    """The layouts that differ from a contiguous one for this problem's tensors."""
    shapes = [spec.example_shape for spec in problem.signature.tensors]
    found = list(_LAYOUTS) if any(shapes) else []
    return (*found, "channels_last") if any(len(shape) in (4, 5) for shape in shapes) else tuple(found)


def sizes_of(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Second sizes within the declared ranges: the smallest, the largest that is no larger than the example, an odd
    one, a prime; never more than the example's, which is known to fit the machine."""
    ranges: list[Range] = []
    for spec in problem.signature.tensors:
        ranges += [size for size in spec.shape if isinstance(size, Range)]
    if not ranges:
        return ()
    choices: list[tuple[int, ...]] = []
    for pick in (_lowest, _odd, _prime, _one):
        sizes = tuple(pick(item) for item in ranges)
        if sizes not in choices and sizes != tuple(item.example for item in ranges):
            choices.append(sizes)
    return tuple(choices)


def told(case: Case) -> str:
    """What a candidate's author may know of a case."""
    parts = [f"inputs {case.family}"]
    if case.sizes:
        parts.append(f"sizes {case.sizes}")
    if case.layout != "contiguous":
        parts.append(f"layout {case.layout}")
    if case.weights != "original":
        parts.append(f"weights {case.weights}")
    if not case.hidden:
        parts.append(f"seed {case.seed}")
    return ", ".join(parts)


def _lowest(size: Range) -> int:
    return size.low


def _one(size: Range) -> int:
    return max(size.low, 1)


def _odd(size: Range) -> int:
    top = min(size.high, size.example)
    found = [value for value in range(max(size.low, top // 2), top + 1) if value % 2]
    return found[-1] if found else top


def _prime(size: Range) -> int:
    top = min(size.high, size.example)
    for value in range(top, max(size.low, 1), -1):
        if value > 1 and all(value % factor for factor in range(2, int(value**0.5) + 1)):
            return value
    return max(size.low, 1)


def total_bytes(shapes: Sequence[tuple[tuple[int, ...], int]]) -> int:
    """Bytes of tensors given as (shape, bytes an element)."""
    total = 0
    for shape, width in shapes:
        count = width
        for size in shape:
            count *= size
        total += count
    return total
