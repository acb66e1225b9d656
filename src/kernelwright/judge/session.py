"""One sandboxed child with one candidate, driven step by step by the judge.

    with Session(problem, candidate, weights=weights, broker=broker) as session:
        started = session.start()                      # build, construct, load weights, prepare
        if started.failure: ...                        # Failure(status, message): the candidate's own fault
        run = session.run(leaves, expected)            # one verified call
        window = session.window(calls, expected, keep=(3,))   # timed calls back to back

Nothing here raises for what a candidate does: every step answers with a record whose `failure` is None or says what
went wrong, within its time limit. Once the child is lost (`session.lost`), each later step answers with the failure
that lost it. Outputs are judge-owned tensors; what the child declares about them is only a declaration.

The child runs only while a step waits for it, and is stopped (SIGSTOP) otherwise: many sessions may be held warm and
none disturbs the one that is timed. A session is used by one thread at a time.

`NullSession` has the same interface, in this process, for the device "null": no sandbox, no time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from kernelwright.records import Candidate, Problem, Status

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SessionSettings:
    """Limits of a session."""

    start_s: float = 60.0
    """For constructing the candidate; the broker's time to compile does not count."""
    weights_s: float = 60.0
    """For loading weights and prepare()."""
    call_s: float = 10.0
    """For one call. A window of n calls gets n times as much, at most `window_s`."""
    window_s: float = 60.0
    memory_bytes: int = 4 << 30
    """What the child may use beyond what it has before the candidate is loaded."""
    threads: int = 0
    """Threads of torch in the child; 0: as many as in the judge."""
    log_bytes: int = 8000
    """How much of what the candidate prints is kept."""
    readable: tuple[Path, ...] = ()
    """Further files and folders the child may read. Python, torch and the compile cache are readable anyway."""
    allow_weaker: bool = False
    """Whether to go on where the kernel cannot close files (no Landlock)."""


@dataclass(frozen=True)
class Failure:
    """Why a step failed: COMPILE_ERROR, RUNTIME_ERROR, TIMEOUT, UNSUPPORTED or CHEATED, and one sentence."""

    status: Status
    message: str


@dataclass(frozen=True)
class Expected:
    """What a call must return, known to the judge from the reference."""

    template: str
    """See records.nest."""
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    """As torch names them without the prefix."""

    @classmethod
    def of(cls, result: Any) -> "Expected":
        """From a result of the reference: nested tensors."""
        raise NotImplementedError


@dataclass(frozen=True)
class Declared:
    """What the child says of one tensor it returned. Nobody relies on it but to name a mismatch."""

    kind: str
    """Type name: "Tensor", "Parameter", or a foreign class (a lazy subclass, for one)."""
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: str = "cpu"
    input_alias: int | None = None
    """The input leaf whose memory it shares."""
    output_alias: int | None = None
    """The earlier output whose memory it shares."""
    state_alias: str | None = None
    """The parameter or buffer whose memory it shares."""


@dataclass(frozen=True)
class Started:
    """The candidate is constructed, has its weights and is prepared."""

    failure: Failure | None = None
    construct_s: float = 0.0
    """Without the broker's time."""
    build_s: float = 0.0
    """The broker's time."""
    prepare_us: float | None = None
    """Time of the first prepare(); None where the candidate has none."""
    confinement: str = ""
    """What was closed, as a sentence."""


@dataclass(frozen=True)
class Loaded:
    """New weights are in, and prepare() has run."""

    failure: Failure | None = None
    prepare_us: float | None = None


@dataclass(frozen=True)
class State:
    """Parameters and buffers as the candidate holds them now (a reference that trains changes its buffers)."""

    failure: Failure | None = None
    tensors: "tuple[tuple[str, Tensor], ...]" = ()


@dataclass(frozen=True)
class Run:
    """One call."""

    failure: Failure | None = None
    template: str = ""
    """Structure of the result as declared."""
    declared: tuple[Declared, ...] = ()
    outputs: "tuple[Tensor | None, ...]" = ()
    """Judge-owned copies, contiguous, one for each expected tensor; None where what is declared does not fit it."""
    unwritten: tuple[int, ...] = ()
    """Outputs that still hold the judge's poison in some place."""
    changed: tuple[int, ...] = ()
    """Input leaves whose bytes differ after the call."""
    guards: bool = True
    """Whether the zones around the outputs are intact."""
    forward_us: float = 0.0
    copy_us: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether structure, shapes and dtypes are the expected ones."""
        return self.failure is None and all(output is not None for output in self.outputs)


@dataclass(frozen=True)
class Window:
    """Calls back to back, timed by the judge's clock around go and done."""

    failure: Failure | None = None
    calls: int = 0
    forward_us: float = 0.0
    """From go until all calls have returned; holds one round trip."""
    copy_us: float = 0.0
    """Copying all results out, the second interval; holds one wake-up and one round trip."""
    outputs: "tuple[tuple[int, tuple[Tensor | None, ...]], ...]" = ()
    """(index of the call, its outputs) for each index in `keep`."""
    unwritten: tuple[int, ...] = ()
    """Calls of which some output was left unwritten (sampled)."""
    changed: tuple[int, ...] = ()
    """Calls of which some input was changed."""
    guards: bool = True
    waited_us: float = 0.0
    """How long the child's threads stood ready without a processor: others were using it."""
    own_us: float = 0.0
    """Processor time this process itself used meanwhile, beyond the wait."""


class Steps(Protocol):
    """What Session and NullSession share."""

    candidate: Candidate

    def start(self) -> Started:
        """Builds, constructs, loads weights, prepares."""
        ...

    def load_weights(self, weights: "Mapping[str, Tensor]") -> Loaded:
        """Replaces all weights and calls prepare() again."""
        ...

    def run(self, leaves: "Sequence[Tensor]", expected: Expected) -> Run:
        """One call with the tensors `leaves` (signature order, any strides)."""
        ...

    def window(self, calls: "Sequence[Sequence[Tensor]]", expected: Expected, *, keep: Collection[int] = ()) -> Window:
        """One call for each element of `calls`, each in memory of its own, back to back."""
        ...

    def state(self, like: "Mapping[str, Tensor]") -> State:
        """The tensors of the candidate's state_dict that have the names, shapes and dtypes of `like`."""
        ...

    def close(self) -> None:
        """Ends the child. Idempotent."""
        ...

    @property
    def lost(self) -> Failure | None:
        """The failure that ended the child, if any."""
        ...

    @property
    def log(self) -> str:
        """What the candidate printed, cut."""
        ...

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most resident memory the child had beyond its size before the candidate; None where not known."""
        ...


class Session:
    """A sandboxed child process. See the top of this file.

    `weights` are the reference's (name -> tensor of its state_dict); `broker` (targets.Broker) serves the builds the
    candidate asks for. Requests in the language "inductor" are served only for the problem's own source.
    Raises SandboxError from `start` where no sandbox can be had here; nothing else.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        *,
        weights: "Mapping[str, Tensor]",
        broker: Any,
        settings: SessionSettings = SessionSettings(),
        watch: Callable[[str], None] | None = None,
    ) -> None:
        self.problem, self.candidate, self.settings = problem, candidate, settings
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.close()

    def close(self) -> None:
        raise NotImplementedError
