"""Which strategy of a swarm finds most for the same number of questions: a simulation of select.py, not of models.

    python benchmarks/strategies.py [--seeds 300] [--json FILE]

Who writes next and from what is decided by search/select.py, the function that searches use. The writers are simulated:
no model is asked and no kernel is judged. So the table tells how the strategies answer to assumptions about writers,
which are those of `Assumed`; it does not tell how models behave. All members write at once, and a round ends when all
have answered. For a seed the ideas' ceilings and a writer's luck in its n-th turn are the same under each strategy.
"""

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from kernelwright.records import (
    Candidate,
    Entry,
    Environment,
    Facts,
    Parent,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
)
from kernelwright.search.select import STRATEGIES, turn
from kernelwright.writers import Standing

MEMBERS = 8
"""As in the founding swarm."""
QUESTIONS = (16, 24, 48, 96)
TABLED = 48
"""Questions at which the assumptions are varied: five turns of each member and a crossing."""
BASELINE_US = 100.0
RESAMPLES = 1000


@dataclass(frozen=True)
class Assumed:
    """A writer's skill. Speedups are natural logarithms here: a gain of 0.1 makes a kernel 1.105 times faster."""

    right_first: float = 0.4
    """Chance that a kernel from nothing is right."""
    right_again: float = 0.7
    """That a changed one is, its own or another's."""
    ideas: int = 6
    alike: float = 0.5
    """Chance that a writer begins with the idea that everybody has first; else each idea is as likely."""
    ceiling: float = 1.2
    """What an idea can reach, on average."""
    spread: float = 0.5
    """Standard deviation of the ideas' ceilings, which nobody knows beforehand."""
    start: float = 0.3
    """Share of its ceiling that a first kernel reaches, on average, evenly from 0 to twice that."""
    gain: float = 0.25
    """Share of the way left to the ceiling that a right change of the own kernel makes, on average, exponential."""
    foreign: float = 1.0
    """The same for a change of another's kernel, in units of `gain`."""
    joined: float = 0.2
    """Chance that whoever is shown kernels of two ideas joins them, which adds half of the lower ceiling."""
    best_member: float = 1.0
    """Gain of the first member, in units of `gain`."""


VARIED: dict[str, Assumed] = {
    "as stated": Assumed(),
    "ideas differ (alike 0)": Assumed(alike=0.0),
    "ideas alike (alike 0.9)": Assumed(alike=0.9),
    "ideas equally good (spread 0)": Assumed(spread=0.0),
    "ideas of very different worth (spread 1)": Assumed(spread=1.0),
    "others' kernels are hard to change (foreign 0.3)": Assumed(foreign=0.3),
    "others' kernels teach (foreign 1.5)": Assumed(foreign=1.5),
    "ideas never join (joined 0)": Assumed(joined=0.0),
    "ideas join easily (joined 0.6)": Assumed(joined=0.6),
    "weak writers (right 0.1, 0.4)": Assumed(right_first=0.1, right_again=0.4),
    "sure writers (right 0.8, 0.9)": Assumed(right_first=0.8, right_again=0.9),
    "one member gains three times as much": Assumed(best_member=3.0),
}


@dataclass(frozen=True)
class Kernel:
    """What a simulated candidate is: the ideas it holds, their ceiling, and its speedup if it is right."""

    ideas: frozenset[int]
    ceiling: float
    speedup: float


HERE = Environment(Facts("null", "null", "null"), system="", python="", torch="", threads=1)


def judged(writer: str, label: str, us: float | None, baseline: bool = False, at: float = 0.0) -> Entry:
    candidate = Candidate(writer, "null@null", (SourceFile("model.py", ""),), label=label, baseline=baseline)
    timing = Timing((us,), "simulated") if us is not None else None
    status = Status.WRONG_VALUES if us is None else Status.PASSED
    return Entry(candidate, Verdict(label, "", "null@null", status, Stage.TIME, HERE, timing=timing, decided_at=at))


class Swarm:
    """One simulated search."""

    def __init__(self, strategy: str, questions: int, assumed: Assumed, seed: int) -> None:
        self._assumed, self._seed = assumed, seed
        self._crossings = 1 if strategy == "best-of-swarm" else 0
        self._turns = questions // MEMBERS
        self._strategy = strategy
        drawn = random.Random(f"ceilings {seed}")
        self._ceilings = [max(0.05, drawn.gauss(assumed.ceiling, assumed.spread)) for _ in range(assumed.ideas)]
        self._entries = [judged("eager", "eager", BASELINE_US, baseline=True)]
        self._kernels: dict[str, Kernel] = {}
        self.asked = 0

    def best(self) -> float:
        """The logarithm of the best speedup that a right kernel has after all questions; 0 where none beats eager."""
        made = {f"member {place}": 0 for place in range(MEMBERS)}
        while round_ := [*self._round(made)]:
            self._entries += round_
        right = [entry.candidate.label for entry in self._entries[1:] if entry.verdict.timing]
        return max((self._kernels[label].speedup for label in right), default=0.0)

    def _round(self, made: dict[str, int]) -> Iterator[Entry]:
        """Every member's next answer; what it is shown was judged before the round."""
        idle = set(made)
        while choice := turn(
            Standing(
                self._strategy, tuple(made.items()), frozenset(idle), self._turns - self._crossings, self._crossings
            ),
            self._entries,
        ):
            idle.discard(choice.member)
            made[choice.member] += 1
            luck = random.Random(f"{self._seed} {choice.member} {made[choice.member]}")
            self.asked += 1
            kernel, right = self._answer(choice.member, choice.own, choice.parents, luck)
            label = str(self.asked)
            self._kernels[label] = kernel
            us = BASELINE_US * math.exp(-kernel.speedup) if right else None
            yield judged(choice.member, label, us, at=float(self.asked))

    def _answer(
        self, member: str, own: Parent | None, shown: Sequence[Parent], luck: random.Random
    ) -> tuple[Kernel, bool]:
        assumed = self._assumed
        fate, where, how_much, joins = luck.random(), luck.random(), luck.expovariate(1.0), luck.random()
        kernels = [self._kernels[parent.candidate.label] for parent in shown if parent.candidate.label in self._kernels]
        if own is not None:
            base, factor = self._kernels[own.candidate.label], 1.0
        elif kernels:
            base = kernels[0]
            factor = 1.0 if shown[0].candidate.writer == member else assumed.foreign
            other = next((kernel for kernel in kernels if kernel.ideas - base.ideas), None)
            if other is not None and joins < assumed.joined:
                base = Kernel(
                    base.ideas | other.ideas,
                    max(base.ceiling, other.ceiling) + min(base.ceiling, other.ceiling) / 2,
                    base.speedup,
                )
        else:
            idea = 0 if where < assumed.alike else luck.randrange(assumed.ideas)
            ceiling = self._ceilings[idea]
            first = Kernel(frozenset({idea}), ceiling, ceiling * assumed.start * 2 * luck.random())
            return first, fate < assumed.right_first
        right = fate < assumed.right_again
        if not right:
            return base, False  # it goes on from where it was
        factor *= assumed.best_member if member == "member 0" else 1.0
        way = base.ceiling - base.speedup
        return replace(base, speedup=base.speedup + way * min(1.0, assumed.gain * factor * how_much)), True


@dataclass(frozen=True)
class Row:
    """Medians over all seeds of the best speedup, with the 95 % interval of the median, by strategy."""

    assumption: str
    questions: int
    medians: dict[str, tuple[float, float, float]]
    ahead: dict[str, float]
    """Share of the seeds in which the strategy's best is the best of all three, ties shared."""


def row(name: str, assumed: Assumed, questions: int, seeds: int) -> Row:
    found = {
        strategy: [math.exp(Swarm(strategy, questions, assumed, seed).best()) for seed in range(seeds)]
        for strategy in STRATEGIES
    }
    ahead = dict.fromkeys(found, 0.0)
    for bests in zip(*found.values(), strict=True):
        first = [strategy for strategy, best in zip(found, bests, strict=True) if best == max(bests)]
        for strategy in first:
            ahead[strategy] += 1 / len(first) / seeds
    return Row(name, questions, {strategy: middle(some) for strategy, some in found.items()}, ahead)


def middle(some: Sequence[float]) -> tuple[float, float, float]:
    """Median, low and high of its bootstrap interval."""
    drawn = random.Random(0)
    medians = sorted(median(drawn.choices(some, k=len(some))) for _ in range(RESAMPLES))
    return median(some), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    lines = [f"| assumption | questions | {' | '.join(STRATEGIES)} |", f"|---|---:|{'---:|' * len(STRATEGIES)}"]
    for item in rows:
        cells = [
            f"{item.medians[name][0]:.2f} ({item.medians[name][1]:.2f} to {item.medians[name][2]:.2f}), "
            f"{item.ahead[name]:.0%}"
            for name in STRATEGIES
        ]
        lines.append(f"| {item.assumption} | {item.questions} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description="Strategies of a swarm, simulated.")
    options.add_argument("--seeds", type=int, default=300)
    options.add_argument("--json", metavar="FILE", type=Path, help="write the result there")
    chosen = options.parse_args()
    wanted = [("as stated", VARIED["as stated"], questions) for questions in QUESTIONS]
    wanted += [(name, assumed, TABLED) for name, assumed in VARIED.items() if name != "as stated"]
    rows = []
    for place, (name, assumed, questions) in enumerate(wanted, 1):
        print(f"[{place}/{len(wanted)}] {name}, {questions} questions", file=sys.stderr, flush=True)
        rows.append(row(name, assumed, questions, chosen.seeds))
    print(table(rows))
    if chosen.json:
        told = {"what": "a simulation of search/select.py, not of models", "seeds": chosen.seeds, "members": MEMBERS}
        told |= {"assumed": asdict(Assumed()), "rows": [asdict(item) for item in rows]}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
