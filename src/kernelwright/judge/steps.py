"""What a session's steps answer: records alone, so that clock and checks need not know how a child is driven."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernelwright.records import Candidate, Problem, Status, flatten
from kernelwright.targets.surroundings import Change

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch

ALLOW_WEAKER = "KERNELWRIGHT_ALLOW_WEAKER"
"""Set to 1 by a user who accepts that candidates can read files: see docs/security.md."""


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
    watch_s: float = 60.0
    """For one call on the watched build of its kernels, which is some hundred times slower."""
    memory_bytes: int = 4 << 30
    """What the child may use beyond what it has before the candidate is loaded."""
    threads: int = 0
    """Threads of torch in the child; 0: as many as in the judge."""
    log_bytes: int = 8000
    """How much of what the candidate prints is kept."""
    readable: tuple[Path, ...] = ()
    """Further files and folders the child may read. Python, torch and the compile cache are readable anyway."""
    allow_weaker: bool = field(default_factory=lambda: os.environ.get(ALLOW_WEAKER) == "1")
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

    @cached_property
    def bytes(self) -> int:
        """Size of all the tensors together."""
        import torch

        sizes = (getattr(torch, dtype).itemsize for dtype in self.dtypes)
        return sum(math.prod(shape) * size for shape, size in zip(self.shapes, sizes, strict=True))

    @classmethod
    def of(cls, result: Any) -> "Expected":
        """From a result of the reference: nested tensors."""
        import torch

        leaves, template = flatten(result, lambda value: isinstance(value, torch.Tensor))
        names = tuple(str(leaf.dtype).removeprefix("torch.") for leaf in leaves)
        return cls(template, tuple(tuple(leaf.shape) for leaf in leaves), names)


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
    """Outputs that still hold the judge's poison in some place, or differed when they were copied again."""
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
    """Copying whole results out, the second interval; holds one wake-up and one round trip too."""
    copied: int = 0
    """Those of how many calls. Which, the child learns when the first interval is over."""
    results: "tuple[tuple[Tensor | None, ...], ...]" = ()
    """Of as many of them as were to be kept, in order; None: another shape or dtype."""
    unwritten: tuple[int, ...] = ()
    """Calls, of those copied, of which some output was left unwritten."""
    changed: tuple[int, ...] = ()
    """Calls, of those copied, of which some input was changed."""
    guards: bool = True
    waited_us: float = 0.0
    """How long the child's threads, and the judge's own, stood ready without a processor: others were using it."""
    copy_waited_us: float = 0.0
    """The same while results were copied."""
    own_us: float = 0.0
    """Processor time this process itself used meanwhile, beyond the wait."""


@dataclass(frozen=True)
class Watched:
    """What a call's launches showed on the watched build of hosted kernels."""

    failure: Failure | None = None
    launches: int = 0
    faults: tuple[str, ...] = ()
    """Each one sentence with kernel, line, thread and buffer."""
    remarks: tuple[str, ...] = ()
    """What breaks the language's rules and may work all the same."""
    chip: str = ""
    estimate_us: float = 0.0
    """At least so long the launches take on `chip`, one after the other: an estimate."""

    @classmethod
    def told(cls, failure: Failure | None, said: Any) -> "Watched":
        """As the child said it; nothing where it is malformed."""
        try:
            return cls(
                failure,
                int(said["launches"]),
                tuple(str(fault)[:500] for fault in said["faults"][:_FAULTS]),
                tuple(str(remark)[:500] for remark in said["remarks"][:_FAULTS]),
                str(said["chip"])[:50],
                float(said["estimate_us"]),
            )
        except (TypeError, ValueError, KeyError, OverflowError):
            return cls(failure)


_FAULTS = 20


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

    def window(self, calls: "Batch", expected: Expected, *, reveal: Sequence[int] = (), keep: int = 0) -> Window:
        """The calls back to back, each in memory of its own; then the whole results of those in `reveal` are copied,
        and those of the first `keep` come back."""
        ...

    def beside(self, calls: "Batch", expected: Expected) -> Window:
        """A window, after which stock operators run in place of any copying: `copy_us` is theirs."""
        ...

    def state(self, like: "Mapping[str, Tensor]") -> State:
        """The tensors of the candidate's state_dict that have the names, shapes and dtypes of `like`."""
        ...

    def changes(self, *, names: bool = True) -> tuple[Change, ...] | None:
        """What the whole process shares and is otherwise than before the candidate came, as the child tells it;
        None where it is not looked at. Without `names` only settings are looked at, which is quick."""
        ...

    def ledger(self, calls: "Batch") -> tuple[tuple[str, float], ...]:
        """What runs in these calls, as the child tells it: (name, share of the time). Empty where it does not."""
        ...

    def watch(self, leaves: "Sequence[Tensor]", chip: str) -> Watched:
        """One call on builds of hosted kernels that tell races, bounds and the like, as the child tells it."""
        ...

    def abort(self) -> None:
        """Ends the child from any thread: the step under way answers with a failure."""
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


def plain(problem: Problem, leaves: "Sequence[Tensor]") -> "list[Tensor]":
    """The leaves as plain memory; where the signature says two are one tensor, they are."""
    found = [leaf.detach().resolve_conj().resolve_neg() for leaf in leaves]
    for index, spec in enumerate(problem.signature.tensors):
        if spec.alias_of is not None:
            found[index] = found[spec.alias_of]
    return found
