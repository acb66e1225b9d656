"""What the judge says of a candidate. A timing exists only where every gate passed."""

import math
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from kernelwright.records.digest import digest
from kernelwright.records.facts import Environment
from kernelwright.records.problem import Case


class Status(Enum):
    """The outcome, one word."""

    PASSED = "PASSED"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    WRONG_VALUES = "WRONG_VALUES"
    CHEATED = "CHEATED"
    COMPILE_ERROR = "COMPILE_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    TIMEOUT = "TIMEOUT"
    UNSUPPORTED = "UNSUPPORTED"


class Stage(Enum):
    """How far the judge went: each stage includes those before it."""

    BUILD = "build"
    SCREEN = "screen"
    VERIFY = "verify"
    TIME = "time"
    CONFIRM = "confirm"


class Weight(Enum):
    """What a finding that is not ok means."""

    GATE = "gate"
    """The candidate is rejected."""
    BAR = "bar"
    """It may serve as a baseline but cannot win."""
    INFORM = "inform"
    """It is shown, nothing more."""


@dataclass(frozen=True)
class Finding:
    """One check's answer."""

    check: str
    """The name of the check, as `kernelwright checks` lists it."""
    ok: bool
    message: str
    """One sentence: what was seen, where, and against which bound."""
    weight: Weight = Weight.GATE
    status: Status = Status.WRONG_VALUES
    """The status a failed gate gives the verdict."""
    numbers: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Timing:
    """Device time of one call, free of the cost of asking for it."""

    samples_us: tuple[float, ...]
    method: str
    """How a sample came about: "slope over 4 and 8 calls, fresh inputs, copy-out beyond memcpy charged"."""
    cold_cache: bool = False
    resolution_us: float = 0.0
    """The smallest difference that the clock of this run could have seen."""
    copy_us: float = 0.0
    """Median time to copy the results out, per call, of which only what exceeds a memcpy is in the samples."""

    def __post_init__(self) -> None:
        if not self.samples_us:
            raise ValueError("a timing needs samples")

    @cached_property
    def median_us(self) -> float:
        return self.quantile_us(0.5)

    def quantile_us(self, q: float) -> float:
        """The q-quantile (0 to 1) of the samples, linearly interpolated."""
        ordered = sorted(self.samples_us)
        place = q * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@dataclass(frozen=True)
class Comparison:
    """A candidate beside a baseline, measured in one run by turns."""

    baseline: str
    """The baseline's title: "eager", "inductor default"."""
    candidate: str
    """The baseline's digest."""
    timing: Timing
    """The baseline's samples of this very run."""
    speedup: float
    """Baseline's median over the candidate's."""
    low: float
    high: float
    """Bootstrap interval (95 %) of the ratio of medians."""


@dataclass(frozen=True)
class Trial:
    """A tuner's cheap look at one variant. It may reject and rank, never accept."""

    candidate: str
    case: str
    status: Status
    median_us: float | None
    message: str = ""


@dataclass(frozen=True)
class Verdict:
    """What was found about one candidate for one problem on one machine."""

    candidate: str
    problem: str
    target: str
    status: Status
    stage: Stage
    """The last stage that was reached."""
    environment: Environment
    findings: tuple[Finding, ...] = ()
    timing: Timing | None = None
    prepare_us: float | None = None
    """Time of `prepare()`, which runs once per change of weights; None where there is none."""
    comparisons: tuple[Comparison, ...] = ()
    ledger: tuple[tuple[str, float], ...] = ()
    """Kernels and library calls that ran, with their share of the time (0 to 1), longest first."""
    peak_memory_bytes: int | None = None
    native: bool = True
    """False on a host that stands in for the device: such a verdict never has a timing."""
    labels: tuple[str, ...] = ()
    """"fixed shape", "algorithmic", "degenerate problem": what a table must say beside a speedup."""
    cases: tuple[Case, ...] = ()
    """The inputs it was asked for, in order: a case and the problem's text draw the same ones anywhere. They are for
    who judges again (Judge.again); writers are told findings, which name no seed."""
    judge: str = ""
    """Version of the judge's rules."""
    decided_at: float = 0.0
    """Seconds since the epoch."""
    cost_s: float = 0.0
    """How long judging took."""
    log: str = ""
    """What the candidate or its compiler printed, cut to a few thousand characters."""

    def __post_init__(self) -> None:
        if self.timing is not None and (self.status is not Status.PASSED or not self.native):
            raise ValueError("a timing exists only for a native PASSED verdict")
        if self.status is Status.PASSED and any(self.failed(Weight.GATE)):
            raise ValueError("a verdict with a failed gate is not PASSED")

    def failed(self, weight: Weight) -> tuple[Finding, ...]:
        """The findings of `weight` that are not ok."""
        return tuple(finding for finding in self.findings if not finding.ok and finding.weight is weight)

    @property
    def confirmed(self) -> bool:
        """Whether it passed again on fresh seeds, and may be deployed and enter tables."""
        return self.status is Status.PASSED and self.stage is Stage.CONFIRM and not self.failed(Weight.BAR)

    @property
    def reason(self) -> str:
        """The first failed gate's or bar's message; empty where there is none."""
        failed = self.failed(Weight.GATE) or self.failed(Weight.BAR)
        return failed[0].message if failed else ""

    @cached_property
    def digest(self) -> str:
        return digest("verdict", self)

    def speedup(self, baseline: str) -> Comparison | None:
        """The comparison with the fastest baseline whose title is or begins with `baseline`."""
        matching = [
            item for item in self.comparisons if item.baseline == baseline or item.baseline.startswith(baseline + " ")
        ]
        return min(matching, key=lambda item: item.timing.median_us) if matching else None

    @property
    def best_baseline(self) -> Comparison | None:
        """The comparison with the fastest baseline of the run."""
        return min(self.comparisons, key=lambda item: item.timing.median_us) if self.comparisons else None
