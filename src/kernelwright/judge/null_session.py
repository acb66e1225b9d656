"""A session without a child, for the device "null"."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from kernelwright.errors import CompileError, MissingError
from kernelwright.judge.steps import Expected, Failure, Loaded, Run, Started, State, Watched, Window, plain
from kernelwright.records import Candidate, Problem, Status, flatten

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch


class NullSession:
    """The interface of Session for the device "null": in this process, trusted, without sandbox and without time."""

    def __init__(self, problem: Problem, candidate: Candidate, *, weights: "Mapping[str, Tensor]", **_: Any) -> None:
        self.problem, self.candidate = problem, candidate
        self._weights = weights
        self._module: Any = None
        self._lost: Failure | None = None
        self.log = ""
        self.peak_memory_bytes: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lost(self) -> Failure | None:
        """The failure that ended the session, if any."""
        return self._lost

    def start(self) -> Started:
        """Constructs and loads weights."""
        from kernelwright.graph.reference import load_text
        from kernelwright.targets import load_candidate

        problem = self.problem
        try:
            reference = load_text(problem.source, problem.name, import_paths=problem.import_paths)
            self._module = load_candidate(
                self.candidate,
                reference.get_init_inputs(),
                weights=self._weights,
                training=problem.numerics.training,
            )
        except Exception as error:  # a candidate's text may raise anything
            self._lost = _raised(error)
        return Started(self._lost, confinement="none: in the judge's own process")

    def load_weights(self, weights: "Mapping[str, Tensor]") -> Loaded:
        """Replaces all weights and calls prepare() again."""
        from kernelwright.targets import prepare

        if self._lost:
            return Loaded(self._lost)
        try:
            self._module.load_state_dict(dict(weights))
            prepare(self._module)
        except Exception as error:  # as above
            return Loaded(_raised(error))
        return Loaded()

    def run(self, leaves: "Sequence[Tensor]", expected: Expected) -> Run:
        """One call."""
        from kernelwright.judge.fresh import Given

        window = self.window(Given([plain(self.problem, leaves)]), expected, reveal=(0,), keep=1)
        if window.failure:
            return Run(window.failure)
        (outputs,) = window.results
        return Run(
            template=expected.template if all(output is not None for output in outputs) else "",
            outputs=outputs,
            changed=(0,) if window.changed else (),
        )

    def window(self, calls: "Batch", expected: Expected, *, reveal: Sequence[int] = (), keep: int = 0) -> Window:
        """The calls, one after the other; no time is taken."""
        import torch

        from kernelwright.records import unflatten

        if self._lost:
            return Window(self._lost)
        kept: dict[int, tuple[Tensor | None, ...]] = {}
        changed = []
        for index in range(len(calls)):
            leaves = calls.leaves(index)
            given = [leaf.clone() for leaf in leaves]
            call = unflatten(self.problem.signature.arguments, given)
            try:
                with torch.set_grad_enabled(self.problem.signature.grad):
                    result = self._module(*call["args"], **call["kwargs"])
                found, template = flatten(result, lambda value: isinstance(value, torch.Tensor))
            except Exception as error:  # as above
                return Window(_raised(error))
            if not all(torch.equal(mine, theirs) for mine, theirs in zip(given, leaves, strict=True)):
                changed.append(index)
            if index in reveal[:keep]:
                fits = template == expected.template and Expected.of(result) == expected
                kept[index] = tuple(leaf.detach().clone() if fits else None for leaf in found)
        return Window(
            calls=len(calls),
            copied=len(reveal),
            results=tuple(map(kept.__getitem__, reveal[:keep])),
            changed=tuple(changed),
        )

    def beside(self, calls: "Batch", expected: Expected) -> Window:
        """The calls; nothing runs after them."""
        return self.window(calls, expected)

    def state(self, like: "Mapping[str, Tensor]") -> State:
        """Entries of the state_dict."""
        if self._lost:
            return State(self._lost)
        found = self._module.state_dict()
        return State(tensors=tuple((name, found[name].clone()) for name in like if name in found))

    def changes(self, *, names: bool = True) -> None:
        """The process is the judge's own: nothing is looked at."""

    def ledger(self, calls: "Batch") -> tuple[tuple[str, float], ...]:
        """Nothing is profiled."""
        return ()

    def watch(self, leaves: "Sequence[Tensor]", chip: str) -> Watched:
        """Nothing is watched."""
        return Watched()

    def abort(self) -> None:
        """Nothing to end: what runs in this process runs on."""

    def close(self) -> None:
        """Drops the module."""
        self._module = None
        self._lost = self._lost or Failure(Status.RUNTIME_ERROR, "the session is closed")


def _raised(error: Exception) -> Failure:
    status = Status.RUNTIME_ERROR
    if isinstance(error, CompileError):
        status = Status.COMPILE_ERROR
    elif isinstance(error, MissingError):
        status = Status.UNSUPPORTED
    return Failure(status, f"{type(error).__name__}: {error}"[:2000])
