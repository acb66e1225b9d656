"""One sandboxed child with one candidate, driven step by step by the judge.

    with Session(problem, candidate, weights=weights, broker=broker) as session:
        started = session.start()                      # build, construct, load weights, prepare
        if started.failure: ...                        # Failure(status, message): the candidate's own fault
        run = session.run(leaves, expected)            # one verified call
        window = session.window(calls, expected, reveal=(3,), keep=1)   # timed calls back to back

Nothing here raises for what a candidate does: every step answers with a record whose `failure` is None or says what
went wrong, within its time limit. Once the child is lost (`session.lost`), each later step answers with the failure
that lost it. Outputs are judge-owned tensors; what the child declares about them is only a declaration.

The child runs only while a step waits for it, and is stopped (SIGSTOP) otherwise: many sessions may be held warm and
none disturbs the one that is timed. A session is used by one thread at a time.

`NullSession` has the same interface, in this process, for the device "null": no sandbox, no time.
"""

import pickle
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kernelwright.errors import SandboxError
from kernelwright.home import home
from kernelwright.judge import child, ledger, scratch, told
from kernelwright.judge.arena import Layout
from kernelwright.judge.grounds import CpuGround, Ground, JudgeArena
from kernelwright.judge.null_session import NullSession
from kernelwright.judge.requests import Requests
from kernelwright.judge.series import Series
from kernelwright.judge.spawn import aside, forkserver, readable
from kernelwright.judge.steps import (
    Declared,
    Expected,
    Failure,
    Loaded,
    Run,
    SessionSettings,
    Started,
    State,
    Steps,
    Watched,
    Window,
    plain,
)
from kernelwright.judge.wire import Late, Lost, Wire
from kernelwright.records import Candidate, Problem, Status
from kernelwright.sandbox import Limits
from kernelwright.targets import Broker
from kernelwright.targets.surroundings import Change

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch

__all__ = [
    "Declared",
    "Expected",
    "Failure",
    "Loaded",
    "NullSession",
    "Run",
    "Session",
    "SessionSettings",
    "Started",
    "State",
    "Steps",
    "Window",
]


class Session:
    """A sandboxed child process. See the top of this file.

    `weights` are the reference's (name -> tensor of its state_dict); `broker` serves the builds the candidate asks
    for, those that run their text outside only for the problem's own source (requests.py). Raises SandboxError from
    `start` where no sandbox can be had; nothing else.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        *,
        weights: "Mapping[str, Tensor]",
        broker: Broker,
        settings: SessionSettings = SessionSettings(),
        ground: Ground = CpuGround(),
    ) -> None:
        self.problem, self.candidate, self.settings = problem, candidate, settings
        self._weights, self._broker, self._ground = weights, broker, ground
        self._wire: Wire | None = None
        self._arena: JudgeArena | None = None
        self._scratch: str | None = None
        self._lost: Failure | None = None
        self._log = ""
        self._held = 0
        self._peak: int | None = None
        self._series: Series | None = None
        self._requests = Requests(problem, broker, candidate.target.rpartition("@")[2])
        self._prepares = False
        self._aborted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def lost(self) -> Failure | None:
        """The failure that ended the child, if any."""
        return self._lost

    @property
    def log(self) -> str:
        """What the candidate printed, cut."""
        return self._wire.text if self._wire else self._log

    @property
    def peak_memory_bytes(self) -> int | None:
        """The most resident memory beyond the child's size before the candidate; None where not known."""
        return self._peak

    def start(self) -> Started:
        """Confines a fresh child; builds, constructs, loads weights, prepares. Called once."""
        try:
            confinement = self._confine()
        except Lost as lost:
            return Started(self._end(lost, "before it was constructed"))
        began = time.perf_counter()
        try:
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Construct(self.problem, self.candidate)))
                message = wire.await_message(self.settings.start_s, self._requests.serve)
        except Lost as lost:
            return Started(self._end(lost, "while it was constructed"), confinement=confinement)
        construct_s = time.perf_counter() - began - self._requests.build_s
        failure = self._failed(message, "constructed")
        if failure:
            return Started(failure, construct_s, self._requests.build_s, confinement=confinement)
        self._prepares = message["constructed"] is True
        loaded = self.load_weights(self._weights)
        return Started(loaded.failure, construct_s, self._requests.build_s, loaded.prepare_us, confinement)

    def load_weights(self, weights: "Mapping[str, Tensor]") -> Loaded:
        """Replaces all weights and calls prepare() again."""
        if self._lost:
            return Loaded(self._lost)
        tensors = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
        layout = Layout()
        places = {name: layout.like(tensor) for name, tensor in tensors.items()}
        limit_s = self.settings.weights_s
        try:
            arena = self._room(layout.size)
            for name, tensor in tensors.items():
                arena.put(places[name], tensor)
            arena.publish()
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Load(tuple(places.items()))))
                failure = self._failed(wire.await_message(limit_s, self._requests.serve), "loaded")
                if failure or not self._prepares:
                    return Loaded(failure)
                began = time.perf_counter_ns()
                wire.go()
                message = wire.await_done(limit_s, self._requests.serve)
                prepare_us = (time.perf_counter_ns() - began) / 1000
        except Lost as lost:
            return Loaded(self._end(lost, "while it took its weights"))
        return Loaded(self._failure(message) if message else None, prepare_us)

    def run(self, leaves: "Sequence[Tensor]", expected: Expected) -> Run:
        """One call with the tensors `leaves` (signature order, any strides)."""
        if self._lost:
            return Run(self._lost)
        from kernelwright.judge.fresh import Given

        calls = Given([plain(self.problem, leaves)])
        asked = self._ask(calls, expected, (0,), keep=1, describe=True, limit_s=self.settings.call_s)
        if isinstance(asked, Failure):
            return Run(asked)
        fits = [False] * len(expected.shapes)
        if asked.template == expected.template and len(asked.declared) == len(fits):
            fits = [
                declared.shape == shape and declared.dtype == dtype
                for declared, shape, dtype in zip(asked.declared, expected.shapes, expected.dtypes, strict=True)
            ]
        return Run(
            template=asked.template,
            declared=asked.declared,
            outputs=tuple(output if fit else None for output, fit in zip(asked.taken[0], fits, strict=True)),
            unwritten=tuple(leaf for _, leaf in asked.unwritten if fits[leaf]),
            changed=tuple(leaf for _, leaf in asked.changed),
            guards=asked.guards,
            forward_us=asked.forward_us,
            copy_us=asked.copy_us,
        )

    def window(self, calls: "Batch", expected: Expected, *, reveal: Sequence[int] = (), keep: int = 0) -> Window:
        """The calls back to back, each in memory of its own; then the whole results of those in `reveal` are asked
        for, of which the child has known nothing, and those of the first `keep` come back."""
        if self._lost:
            return Window(self._lost)
        limit_s = min(self.settings.window_s, self.settings.call_s * max(len(calls), 1))
        asked = self._ask(calls, expected, tuple(reveal), keep=keep, describe=False, limit_s=limit_s)
        if isinstance(asked, Failure):
            return Window(asked)
        none = (None,) * len(expected.shapes)
        return Window(
            calls=len(calls),
            forward_us=asked.forward_us,
            copy_us=asked.copy_us,
            copied=len(reveal),
            results=tuple(
                none if call in asked.misfits else tuple(taken)
                for call, taken in zip(reveal, asked.taken, strict=False)
            ),
            unwritten=tuple(sorted({call for call, _ in asked.unwritten} - asked.misfits)),
            changed=tuple(sorted({call for call, _ in asked.changed})),
            guards=asked.guards,
            waited_us=asked.waited_us,
            copy_waited_us=asked.copy_waited_us,
            own_us=asked.own_us,
        )

    def beside(self, calls: "Batch", expected: Expected) -> Window:
        """A window, after which stock operators run in place of any copying: `copy_us` is theirs."""
        if self._lost:
            return Window(self._lost)
        limit_s = min(self.settings.window_s, self.settings.call_s * max(len(calls), 1))
        try:
            series = self._ready(calls, expected, 1)
            if isinstance(series, Failure):
                return Window(series)
            wire, arena = self._wire, self._arena
            assert wire is not None and arena is not None
            series.write(arena, calls)
            arena.publish()
            timed = self._timed(wire, child.CALLS.pack(len(calls), False), limit_s)
            after = _Step() if timed.message else self._timed(wire, child.reveal((child.BESIDE,), False), limit_s)
            message = timed.message or after.message
            if message is None:
                wire.resume()
                message = wire.await_message(self.settings.call_s, self._requests.serve)
                wire.stop()
        except Lost as lost:
            return Window(self._end(lost, "in forward"))
        failure = self._failed(message, "returned")
        return Window(failure, len(calls), timed.us, after.us)

    def state(self, like: "Mapping[str, Tensor]") -> State:
        """The tensors of the candidate's state_dict that have the names, shapes and dtypes of `like`."""
        if self._lost:
            return State(self._lost)
        layout = Layout()
        places = {
            name: layout.contiguous(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
            for name, tensor in like.items()
        }
        try:
            arena = self._room(layout.size)
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Read(tuple(places.items()))))
                message = wire.await_message(self.settings.weights_s, self._requests.serve)
        except Lost as lost:
            return State(self._end(lost, "while its state was read"))
        arena.seize(places.values())
        failure = self._failed(message, "read")
        copied = message.get("read")
        if failure or not isinstance(copied, list):
            return State(failure or self._end(Lost("wrote garbage to its channel to the judge"), ""))
        return State(tensors=tuple((name, arena.take(place)) for name, place in places.items() if name in copied))

    def changes(self, *, names: bool = True) -> tuple[Change, ...] | None:
        """What the whole process shares and is otherwise than before the candidate came, as the child tells it;
        None where there is no child any more. Without `names` only settings are looked at, which is quick."""
        if self._lost or self._wire is None:
            return None
        try:
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Look(names)))
                message = wire.await_message(self.settings.call_s, self._requests.serve)
        except Lost as lost:
            self._end(lost, "while its surroundings were looked at")
            return None
        return told.changes(message.get("changes"))

    def ledger(self, calls: "Batch") -> tuple[tuple[str, float], ...]:
        """What runs in these calls, as the child tells it: (name, share of the time). Empty where it does not."""
        if self._lost:
            return ()
        series = Series.of(self.problem, calls, Expected("", (), ()), 1)
        try:
            arena = self._room(series.size)
            series.write(arena, calls)
            arena.publish()
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Record(series.inputs)))
                message = wire.await_message(self.settings.start_s, self._requests.serve)
        except Lost as lost:
            self._end(lost, "under the profiler")
            return ()
        return ledger.shares(message.get("ledger"))

    def watch(self, leaves: "Sequence[Tensor]", chip: str) -> Watched:
        """One call on builds of the kernels that tell races, bounds and the like, as the child tells it."""
        from kernelwright.judge.fresh import Given

        if self._lost:
            return Watched(self._lost)
        calls = Given([plain(self.problem, leaves)])
        series = Series.of(self.problem, calls, Expected("", (), ()), 1)
        try:
            arena = self._room(series.size)
            series.write(arena, calls)
            arena.publish()
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Watch(series.inputs, chip)))
                message = wire.await_message(self.settings.watch_s, self._requests.serve)
        except Lost as lost:
            return Watched(self._end(lost, "while its kernels were watched"))
        return Watched.told(self._failed(message, "watched"), message.get("watched"))

    def abort(self) -> None:
        """Ends the child from any thread: the step under way answers with a failure."""
        self._aborted = True
        wire = self._wire
        if wire is not None:
            wire.kill()

    def close(self) -> None:
        """Ends the child. Idempotent. What the system needs to take it apart is not waited for."""
        wire, arena, folder = self._wire, self._arena, self._scratch
        self._wire = self._arena = self._series = self._scratch = None
        if wire:
            self._note_memory(wire, arena)
            wire.kill()
            self._log = wire.text
        if wire or arena or folder:
            aside(partial(_bury, wire, arena, folder))
        if not self._lost:
            self._lost = Failure(Status.RUNTIME_ERROR, "the session is closed")

    def _confine(self) -> str:
        import torch

        settings = self.settings
        self._scratch = scratch.make()
        wire = self._wire = forkserver().spawn()
        wire.log_bytes = settings.log_bytes
        if self._aborted:
            wire.kill()
        order = child.Confine(
            ground=self._ground,
            variables=self._ground.variables(),
            devices=self._ground.devices(),
            readable=(*readable(), *self._ground.readable(), *self._granted()),
            writable=(self._scratch, "/dev/null"),
            limits=Limits(memory_bytes=settings.memory_bytes if self._ground.counts_memory else 0),
            execute=self.candidate.target.partition("@")[0] in self._ground.executing,
            threads=settings.threads or torch.get_num_threads(),
            allow_weaker=settings.allow_weaker,
        )
        try:
            wire.send(pickle.dumps(order))
            message = wire.await_message(_CONFINE_S, self._requests.serve)
        except Lost as lost:
            if self._aborted:
                raise
            self.close()
            raise SandboxError(f"a fresh child {lost}; it printed: {self._log[-1000:] or 'nothing'}") from lost
        wire.stop()
        mine = torch.backends.cpu.get_cpu_capability()
        if "confined" not in message or message.get("capability") != mine:
            self.close()
            why = message.get("why") or f"torch uses {message.get('capability')} there and {mine} here"
            raise SandboxError(f"a fresh child could not be set up: {why}")
        self._held = wire.resident_bytes()
        return str(message["confined"])

    def _granted(self) -> list[str]:
        compiled = Path(getattr(self._broker, "folder", None) or home() / "compile")
        compiled.mkdir(parents=True, exist_ok=True)  # what is not there cannot be granted
        return [*map(str, self.settings.readable), *self.problem.import_paths, str(compiled)]

    @contextmanager
    def _awake(self) -> Iterator[Wire]:
        """The child runs inside, and only there."""
        wire = self._wire
        assert wire is not None
        wire.resume()
        yield wire
        wire.stop()

    def _note_memory(self, wire: Wire, arena: JudgeArena | None) -> None:
        if self._held:
            used = wire.peak_bytes() - self._held - (arena.size if arena else 0)
            self._peak = max(self._peak or 0, used)

    def _room(self, size: int) -> JudgeArena:
        """The arena, known to the child and large enough."""
        wire = self._wire
        assert wire is not None
        if self._arena is None or self._arena.size < size:
            if self._arena:
                self._note_memory(wire, self._arena)
                self._arena.close()
            self._series = None
            self._arena = self._ground.arena(size + min(size // 4, _SLACK_BYTES))
            wire.memory_limit = self._held + self.settings.memory_bytes + 2 * self._arena.size
            wire.resume()
            wire.send(pickle.dumps(child.Map(self._arena.size)), (self._arena.file,))
        return self._arena

    def _ask(
        self, calls: "Batch", expected: Expected, reveal: tuple[int, ...], *, keep: int, describe: bool, limit_s: float
    ) -> "_Asked | Failure":
        try:
            series = self._ready(calls, expected, max(1, len(reveal)), 0 if describe else _AHEAD_BYTES)
            if isinstance(series, Failure):
                return series
            wire, arena = self._wire, self._arena
            assert wire is not None and arena is not None
            series.write(arena, calls)
            arena.publish()
            timed = self._timed(wire, child.CALLS.pack(len(calls), describe), limit_s)
            copied = _Step()
            taken, unwritten, changed, guards = [], [], [], True
            if timed.message is None:
                # Only now does the child learn whose results are wanted. Everything is looked at while it is stopped,
                # before it may run again to tell of its results.
                if reveal:
                    series.poison(arena, len(reveal))
                    arena.publish()
                    copied = self._timed(wire, child.reveal(reveal, describe), limit_s)
                    series.seize(arena, len(reveal))
                else:
                    wire.go(child.reveal((), describe))
            message = timed.message or copied.message
            if message is None:
                if reveal:
                    taken = [series.take(arena, slot) for slot in range(min(keep, len(reveal)))]
                    unwritten = [(reveal[slot], leaf) for slot, leaf in series.unwritten(arena, len(reveal))]
                    changed = series.changed(arena, calls, reveal[:_CHECKED])
                    guards = series.guarded(arena, len(reveal))
                    wire.resume()
                message = wire.await_message(self.settings.call_s, self._requests.serve)
                wire.stop()
            failure = self._failed(message, "returned")
            if failure:
                return failure
        except Lost as lost:
            return self._end(lost, "in forward")
        misfits = message.get("misfits")
        template, declared = told.declared(message["returned"])
        return _Asked(
            template=template,
            declared=declared,
            taken=taken,
            misfits=frozenset(i for i in misfits if isinstance(i, int)) if isinstance(misfits, list) else frozenset(),
            unwritten=unwritten,
            changed=changed,
            guards=guards,
            forward_us=timed.us,
            copy_us=copied.us,
            waited_us=timed.waited_us,
            copy_waited_us=copied.waited_us,
            own_us=timed.own_us,
        )

    def _timed(self, wire: Wire, go: bytes, limit_s: float) -> "_Step":
        """From the go until the child is done and stopped: it computes nothing that the clock does not see."""
        queued, own = wire.queued(), time.process_time_ns()
        began = time.perf_counter_ns()
        wire.go(go)
        message = wire.await_done(limit_s, self._requests.serve)
        wire.stop()
        ended = time.perf_counter_ns()
        own, waited = time.process_time_ns() - own, wire.waited_ns(queued, wire.queued())
        return _Step((ended - began) / 1000, waited / 1000, own / 1000, message)

    def _ready(self, calls: "Batch", expected: Expected, slots: int, ahead_bytes: int = 0) -> Series | Failure:
        """The series the child stands ready for, with room for such a window; another one where it has none."""
        if self._series is None or not self._series.fits(calls, expected, slots):
            self._series = None
            series = Series.of(self.problem, calls, expected, slots, ahead_bytes)
            self._room(series.size)
            with self._awake() as wire:
                wire.send(pickle.dumps(series.order))
                failure = self._failed(wire.await_message(self.settings.call_s, self._requests.serve), "ready")
            if failure:
                return failure
            self._series = series
        return self._series

    def _failed(self, message: dict[str, Any], wanted: str) -> Failure | None:
        """The failure a message tells of; None if it is the one that was wanted."""
        return None if wanted in message and "failed" not in message else self._failure(message)

    def _failure(self, message: dict[str, Any]) -> Failure:
        if "failed" not in message:
            return self._end(Lost("wrote garbage to its channel to the judge"), "")
        status = {"CompileError": Status.COMPILE_ERROR, "MissingError": Status.UNSUPPORTED}
        return Failure(
            status.get(str(message["failed"]), Status.RUNTIME_ERROR), str(message.get("why"))[:_WHY_CHARACTERS]
        )

    def _end(self, lost: Lost, when: str) -> Failure:
        status = Status.TIMEOUT if isinstance(lost, Late) else Status.RUNTIME_ERROR
        self._lost = Failure(status, f"the candidate {lost} {when}".strip())
        self.close()
        return self._lost


def _bury(wire: Wire | None, arena: JudgeArena | None, folder: str | None) -> None:
    if wire:
        wire.close()
    if arena:
        arena.close()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Asked:
    """What one order to call gave."""

    template: str
    declared: tuple[Declared, ...]
    taken: "list[list[Tensor]]"
    """Results of the first calls that were copied."""
    misfits: frozenset[int]
    unwritten: list[tuple[int, int]]
    """(call, output)"""
    changed: list[tuple[int, int]]
    """(call, input)"""
    guards: bool
    forward_us: float
    copy_us: float
    waited_us: float
    copy_waited_us: float
    own_us: float


@dataclass(frozen=True)
class _Step:
    """A go and what came of it."""

    us: float = 0.0
    waited_us: float = 0.0
    own_us: float = 0.0
    message: dict[str, Any] | None = None
    """What the child said instead of being done."""


_CONFINE_S = 180.0
"""A first child waits until the forkserver has imported torch."""
_SLACK_BYTES = 1 << 18
"""Memory for layouts of the same inputs that need a little more; all of it is touched."""
_AHEAD_BYTES = 8 << 20
"""Memory for calls that longer windows will bring."""
_CHECKED = 2
"""Of so many of the calls whose results are copied the inputs are compared with what was given."""
_WHY_CHARACTERS = 2000
