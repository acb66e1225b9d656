"""Proposes the reference's graph with its memory-bound parts fused into generated C++ kernels.

Algebra first, then templates: what rewriting leaves is lowered to kernels of loops/ (fused elementwise chains, row
softmax and norms with what stands before and after them, attention, linear maps and matrix products). Heuristics choose
the schedule, and their choice is submitted at once; `bench.trial` then compares its neighbours, as long as that gains
more than the noise, and what was found is submitted too, if it gains more than that over the first.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernelwright.errors import CaptureError, LoweringError
from kernelwright.loops import Plan
from kernelwright.records import Brief, Candidate, Case, Facts, SourceFile, Status, Trial
from kernelwright.writers.writer import Bench

if TYPE_CHECKING:
    from kernelwright.graph.lower import Lowering
    from kernelwright.graph.rewriting import Rewriting

GAIN = 0.03
"""A neighbour must be faster by this part to be moved to: below it is noise."""
CLOSE = 0.05
"""The second best is submitted too if it is this close: the judge's clock is better than a trial's."""
ROUNDS = 2
LEAST_TUNING_S = 8.0
"""With less time than this left nothing is tuned."""


@dataclass(frozen=True)
class _Variant:
    """A lowered graph and the plan of its kernels."""

    shape: str
    """What distinguishes the graph: "causal", "library" attention, linear or convolution, or nothing."""
    plan: Plan

    @property
    def label(self) -> str:
        plan, usual = self.plan, Plan()
        words = [self.shape, f"vec={plan.interleave}"]
        words += ["recompute"] if not plan.keep_row else []
        words += ["keep all"] if plan.keep_from == 1 else []
        words += ["strided"] if not plan.tiles else []
        words += ["cached"] if not plan.stream_bytes else []
        words += [f"grain={plan.grain_elements}"] if plan.grain_elements != usual.grain_elements else []
        return " ".join(word for word in words if word)


class TemplateWriter:
    """Fuses the memory-bound parts of the reference's graph into generated C++ kernels, and tunes their schedule."""

    name = "template"
    baseline = False
    repeats = True

    def missing(self, target: str) -> str | None:
        return None if target == "cpu" else f"template writes for the CPU only, not for {target}"

    async def write(self, brief: Brief, bench: Bench) -> None:
        if brief.attempts < 1:
            return
        until = time.monotonic() + brief.budget_s
        tuning = _Tuning(brief, bench)
        first = tuning.first()
        if first is None:
            return
        await bench.submit(first)
        if brief.attempts > 1 and until - time.monotonic() >= LEAST_TUNING_S:
            for candidate in (await tuning.better(first))[: brief.attempts - 1]:
                await bench.submit(candidate)


class _Tuning:
    def __init__(self, brief: Brief, bench: Bench) -> None:
        self.brief, self.bench = brief, bench
        self.lowerings, self.algorithmic = _lowerings(brief)
        """`algorithmic` are the shapes whose algebra drops work."""
        self.models: dict[str, str] = {}
        self.made: dict[_Variant, Candidate] = {}
        """Those that were tried, ..."""
        self.times: dict[_Variant, float] = {}
        """... and trials that ran, in microseconds."""

    def first(self) -> Candidate | None:
        """The heuristics' choice; None where nothing can be fused."""
        return next((candidate for variant in self._starts() if (candidate := self._candidate(variant))), None)

    async def better(self, first: Candidate) -> list[Candidate]:
        """What was faster in trials than `first`, beyond the noise: the fastest, and the second if it is close."""
        await self._climb([start for start in self._starts() if self._candidate(start)])
        own = [time for variant, time in self.times.items() if self.made[variant].digest == first.digest]
        ranked = sorted(self.times, key=self.times.__getitem__)
        least = self.times[ranked[0]] if ranked else 0.0
        limit = min([least * (1 + CLOSE), *(time * (1 - GAIN) for time in own)])
        return [self.made[variant] for variant in ranked[:2] if self.times[variant] <= limit]

    def _starts(self) -> list[_Variant]:
        return [_Variant(shape, Plan()) for shape in self.lowerings]

    async def _climb(self, starts: Sequence[_Variant]) -> None:
        """Tries the starts with the first neighbours, then those of the best, while that gains."""
        await self._try([*starts, *self._neighbours(starts[0])])
        for _ in range(ROUNDS - 1):
            if not self.times:
                return
            best = min(self.times, key=self.times.__getitem__)
            before = self.times[best]
            await self._try(self._neighbours(best))
            if min(self.times.values()) > before * (1 - GAIN):
                return

    async def _try(self, variants: Iterable[_Variant]) -> None:
        fresh = [variant for variant in dict.fromkeys(variants) if variant not in self.times]
        made = {variant: candidate for variant in fresh if (candidate := self._candidate(variant))}
        if not made:
            return
        self.made |= made
        trials: dict[str, Trial] = {
            trial.candidate: trial for trial in await self.bench.trial(list(made.values()), Case())
        }
        for variant, candidate in made.items():
            trial = trials.get(candidate.digest)
            if trial is not None and trial.status is Status.PASSED and trial.median_us is not None:
                self.times[variant] = trial.median_us

    def _neighbours(self, variant: _Variant) -> list[_Variant]:
        """Plans that differ in one number, where that changes the kernels."""
        plan = variant.plan
        plans = [replace(plan, interleave=count) for count in (2, 4, 8) if count != plan.interleave]
        plans.append(replace(plan, keep_row=not plan.keep_row))
        plans.append(replace(plan, keep_from=1 if plan.keep_from > 1 else Plan().keep_from))
        plans.append(replace(plan, tiles=not plan.tiles))
        plans.append(replace(plan, stream_bytes=0 if plan.stream_bytes else Plan().stream_bytes))
        if self.brief.facts.threads > 1:
            plans += [replace(plan, grain_elements=grain) for grain in (plan.grain_elements // 4,)]
        lowering = self.lowerings[variant.shape]
        own = lowering.text(plan)
        return [replace(variant, plan=other) for other in plans if lowering.text(other) != own]

    def _candidate(self, variant: _Variant) -> Candidate | None:
        """The variant as text; None where the graph holds what cannot be written down."""
        from kernelwright.graph import print_module

        lowering = self.lowerings[variant.shape]
        try:
            if variant.shape not in self.models:
                self.models[variant.shape] = print_module(lowering.capture)
            kernels = lowering.text(variant.plan)
        except (CaptureError, LoweringError):
            return None
        return Candidate(
            writer=TemplateWriter.name,
            target=f"cpp@{self.brief.target}",
            sources=(
                SourceFile("model.py", self.models[variant.shape]),
                SourceFile("reference.py", self.brief.problem.source),
                SourceFile("kernels.cpp", kernels),
            ),
            label=variant.label,
            note=f"kernels: {', '.join(lowering.names)}",
            algorithmic=variant.shape in self.algorithmic,
        )


def _lowerings(brief: Brief) -> "tuple[dict[str, Lowering], set[str]]":
    """The problem's graphs with kernels in them, by what distinguishes them, the likeliest to win first; and for which
    of them algebra dropped work."""
    from kernelwright.graph import capture_problem
    from kernelwright.graph.lower import lower

    if brief.problem.opaque or brief.problem.numerics.training:
        return {}, set()
    try:
        captured = capture_problem(brief.problem)
    except CaptureError:
        return {}, set()
    if captured.mutations:
        return {}, set()
    found: dict[str, Lowering] = {}
    dropping: set[str] = set()
    products = not _library_multiplies_best(brief.facts)
    for shape, rewriting in _rewritings(captured):
        own = found[shape] = lower(rewriting.capture, products=products)
        before = set(found) - {shape}
        if own.attentions:
            found[f"{shape} library attention".strip()] = lower(rewriting.capture, products=products, attention=False)
        if own.multiplies:
            found[f"{shape} library linear".strip()] = lower(rewriting.capture, linear=False)
        if own.convolutions:
            found[f"{shape} library convolution".strip()] = lower(
                rewriting.capture, products=products, convolution=False
            )
        dropping |= set(found) - before if rewriting.drops_work else set()
    return {shape: lowering for shape, lowering in found.items() if lowering.names}, dropping


def _library_multiplies_best(facts: Facts) -> bool:
    """Whether torch's products are MKL's on the processors it is made for, where ours are at 0.82 to 1.0 of them.

    See docs/design/products.md. Maps by weights, which are packed beforehand, are ahead of it all the same.
    """
    import torch

    return facts.name.startswith("Intel") and torch.backends.mkl.is_available()


def _rewritings(captured: object) -> "list[tuple[str, Rewriting]]":
    from kernelwright.graph import CAUSAL, RULES, Capture, rewrite

    assert isinstance(captured, Capture)
    swift = rewrite(captured, (*RULES, CAUSAL))
    found = [("causal", swift)] if CAUSAL.name in swift.applied else []
    found.append(("", rewrite(captured, RULES)))
    if found[-1][1].drops_work:  # fewer operations need not be faster: they may be less to a library's liking
        found.append(("as written", rewrite(captured, [rule for rule in RULES if not rule.drops_work])))
    return found
