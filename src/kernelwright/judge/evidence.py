"""What the judge saw of a candidate, as plain data: all that a check may look at."""

from dataclasses import dataclass, field

from kernelwright.records import Case, Timing


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
    """The class of what came back: anything but Tensor or Parameter is refused."""
    device: str = "cpu"
    own_storage: bool = True
    """False where it is, or lies in, an input or a weight."""
    readable: bool = True
    """False where it holds no memory of its own to copy from: sparse, meta, deferred."""
    unwritten: int = 0
    """Elements that still hold what the judge put into the memory before the call."""
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
    """The traceback's end if the candidate raised; then there are no outputs."""
    inputs_changed: tuple[int, ...] = ()
    """Leaves whose bytes differ after the call."""
    repeat_equal: bool | None = None
    """Whether a second call with the same inputs gave the same bits; None: not tried."""
    timed: bool = False
    """Whether it was one of the calls under the clock."""
    fresh: bool = False
    """Whether its inputs were drawn after the candidate was submitted."""


@dataclass(frozen=True)
class Evidence:
    """Everything seen so far. A check that lacks what it needs says nothing."""

    baseline: bool = False
    calls: tuple[Call, ...] = ()
    timing: Timing | None = None
    copy_us: float = 0.0
    """Median time to copy the outputs of a timed call out, and ..."""
    memcpy_us: float = 0.0
    """... of a plain copy of as many bytes."""
    single_us: float | None = None
    """One call on its own, beside ..."""
    slope_us: float | None = None
    """... the cost of one more call in a row of calls."""
    floor_us: float = 0.0
    """The least time in which the bytes that matter can be moved."""
    floor_bytes: int = 0
    kernels: tuple[tuple[str, float], ...] = ()
    """What the profiler saw run, with its share of the time."""
    processes: int = field(default=0)
    """Threads or processes of the candidate still alive after a call, beyond those of torch."""
