"""What the judge saw of a candidate, as plain data: all that a check may look at."""

from dataclasses import dataclass

from kernelwright.judge.neighbours import Neighbours
from kernelwright.judge.steps import Watched
from kernelwright.records import Case, Status, Timing
from kernelwright.targets.surroundings import Change


@dataclass(frozen=True)
class Difference:
    """How one output compares with what was expected. Counts are of elements."""

    count: int
    wrong: int = 0
    """Elements outside what is allowed, those of `lost` and `strange` included."""
    lost: int = 0
    """Elements that should be NaN and are not."""
    strange: int = 0
    """Elements that are NaN or infinite and should be finite, or the other way round, or of the other infinity."""
    undecided: int = 0
    """Elements about which the reference decides by a rounding; anything is accepted."""
    index: tuple[int, ...] = ()
    """Where the worst is; `expected`, `got`, `allowed` are of this place."""
    expected: float = 0.0
    got: float = 0.0
    allowed: float = 0.0
    worst: float = 0.0
    """Largest error as a multiple of what is allowed there, over all elements that both sides hold finite."""


@dataclass(frozen=True)
class Output:
    """One tensor a call gave back, and what was expected of it."""

    expected_shape: tuple[int, ...]
    expected_dtype: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    kind: str = "Tensor"
    """The class of what came back."""
    device: str = "cpu"
    expected_device: str = "cpu"
    shares: str = ""
    """What memory it lies in, where it is not its own: "input 0", "the parameter weight", "output 0"."""
    may_share: bool = False
    """Whether the reference's own output lies in an input, a weight or another output too."""
    readable: bool = True
    """False where shape and dtype fit and still nothing could be copied out."""
    unwritten: bool = False
    """Whether some part still holds what the judge put into the memory before the call."""
    difference: Difference | None = None
    """None where shape or dtype forbid a comparison."""


@dataclass(frozen=True)
class Call:
    """One call of the candidate."""

    case: Case
    outputs: tuple[Output, ...] = ()
    expected_nest: str = ""
    nest: str = ""
    error: str = ""
    """What the candidate raised; then there are no outputs."""
    inputs_changed: tuple[int, ...] = ()
    """Leaves whose bytes differ after the call."""
    guards: bool = True
    """Whether the memory around the outputs is intact."""
    repeat_equal: bool | None = None
    """Whether a second call with the same inputs gave the same bits; None: not tried."""
    informative: bool = True
    """False where the reference itself gives nothing to compare with: overflow, or a result it cannot decide."""
    timed: bool = False
    """Whether it was one of the calls under the clock."""
    reloaded: bool = False
    """Whether it came after a change of the weights."""


@dataclass(frozen=True)
class Evidence:
    """Everything seen so far. A check that lacks what it needs says nothing."""

    baseline: bool = False
    calls: tuple[Call, ...] = ()
    looked: bool = False
    """Whether the process of the candidate told what in it is otherwise than before, and ..."""
    changes: tuple[Change, ...] = ()
    """... what that is."""
    failure: tuple[Status, str] | None = None
    """What ended the candidate, and the sentence that says how."""
    oracle_note: str = ""
    survey: str = ""
    """What the survey of the problem found; empty where there was none."""
    degenerate: bool = False
    timing: Timing | None = None
    timed_unwritten: int = 0
    """Timed calls that left an output unwritten, and ..."""
    timed_changed: int = 0
    """... that changed an input."""
    charged_us: float = 0.0
    """Part of the timing: what copying the results of a call out cost beyond a plain copy."""
    late_us: float = 0.0
    """How much longer copying usually took than any order of the results in memory explains, ..."""
    late_calls: int = 0
    """... for the results of so many calls."""
    disturbed: int = 0
    """Samples taken while others used the processor."""
    short_of_time: bool = False
    """Whether rounds were left out because the time was up."""
    single_us: float | None = None
    """One call on its own."""
    baseline_us: float | None = None
    """The fastest baseline's median beside it, and ..."""
    baseline_single_us: float | None = None
    """... that baseline's call on its own."""
    floor_disturbed: bool = False
    """Whether the device's bandwidth was measured while other work ran, so that the floor may be too high."""
    floor_us: float = 0.0
    """The least time in which the bytes that matter can be moved."""
    floor_bytes: int = 0
    watched: Watched | None = None
    """What the watched build of hosted kernels told; None where none was asked."""
    neighbours: Neighbours | None = None
    """How stock operators fare right after it, where that was looked at."""
    kernels: tuple[tuple[str, float], ...] = ()
    """What a profiler saw run, with its share of the time."""

    @property
    def answered(self) -> tuple[Call, ...]:
        """The calls that returned something."""
        return tuple(call for call in self.calls if not call.error)
