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

import json
import math
import pickle
import random
import shutil
import site
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kernelwright.errors import CompileError, KernelwrightError, MissingError, SandboxError
from kernelwright.home import home
from kernelwright.judge import child, ledger, scratch
from kernelwright.judge.arena import Arena, Layout, Place
from kernelwright.judge.null_session import NullSession
from kernelwright.judge.spawn import forkserver
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
    Window,
    plain,
)
from kernelwright.judge.wire import Late, Lost, Wire
from kernelwright.records import BuildRequest, Candidate, Problem, Status, decode, encode
from kernelwright.sandbox import Limits
from kernelwright.targets import Broker
from kernelwright.targets.surroundings import Change

if TYPE_CHECKING:
    from torch import Tensor

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
    for, those in the language "inductor" only for the problem's own source. Raises SandboxError from `start` where no
    sandbox can be had; nothing else.
    """

    def __init__(
        self,
        problem: Problem,
        candidate: Candidate,
        *,
        weights: "Mapping[str, Tensor]",
        broker: Broker,
        settings: SessionSettings = SessionSettings(),
    ) -> None:
        self.problem, self.candidate, self.settings = problem, candidate, settings
        self._weights, self._broker = weights, broker
        self._wire: Wire | None = None
        self._arena: Arena | None = None
        self._scratch: str | None = None
        self._lost: Failure | None = None
        self._log = ""
        self._held = 0
        self._peak: int | None = None
        self._build_s = 0.0
        self._builds = 0
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
                message = wire.await_message(self.settings.start_s, self._serve)
        except Lost as lost:
            return Started(self._end(lost, "while it was constructed"), confinement=confinement)
        construct_s = time.perf_counter() - began - self._build_s
        failure = self._failed(message, "constructed")
        if failure:
            return Started(failure, construct_s, self._build_s, confinement=confinement)
        self._prepares = message["constructed"] is True
        loaded = self.load_weights(self._weights)
        return Started(loaded.failure, construct_s, self._build_s, loaded.prepare_us, confinement)

    def load_weights(self, weights: "Mapping[str, Tensor]") -> Loaded:
        """Replaces all weights and calls prepare() again."""
        if self._lost:
            return Loaded(self._lost)
        tensors = {name: weight.detach().cpu().contiguous() for name, weight in weights.items()}
        layout = Layout()
        places = {name: layout.like(tensor) for name, tensor in tensors.items()}
        limit_s = self.settings.weights_s
        try:
            arena = self._room(layout)
            for name, tensor in tensors.items():
                arena.put(places[name], tensor)
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Load(tuple(places.items()))))
                failure = self._failed(wire.await_message(limit_s, self._serve), "loaded")
                if failure or not self._prepares:
                    return Loaded(failure)
                began = time.perf_counter_ns()
                wire.go()
                message = wire.await_done(limit_s, self._serve)
                prepare_us = (time.perf_counter_ns() - began) / 1000
        except Lost as lost:
            return Loaded(self._end(lost, "while it took its weights"))
        return Loaded(self._failure(message) if message else None, prepare_us)

    def run(self, leaves: "Sequence[Tensor]", expected: Expected) -> Run:
        """One call with the tensors `leaves` (signature order, any strides)."""
        if self._lost:
            return Run(self._lost)
        try:
            asked = self._call([leaves], expected, (0,), self.settings.call_s)
        except Lost as lost:
            return Run(self._end(lost, "in forward"))
        if isinstance(asked, Failure):
            return Run(asked)
        fits = [False] * len(expected.shapes)
        if asked.template == expected.template and len(asked.declared) == len(fits):
            fits = [
                declared.shape == shape and declared.dtype == dtype
                for declared, shape, dtype in zip(asked.declared, expected.shapes, expected.dtypes, strict=True)
            ]
        outputs = asked.taken[0]
        return Run(
            template=asked.template,
            declared=asked.declared,
            outputs=tuple(output if fit else None for output, fit in zip(outputs, fits, strict=True)),
            unwritten=tuple(leaf for _, leaf in asked.unwritten if fits[leaf]),
            changed=tuple(leaf for _, leaf in asked.changed),
            guards=asked.guards,
            forward_us=asked.forward_us,
            copy_us=asked.copy_us,
        )

    def window(self, calls: "Sequence[Sequence[Tensor]]", expected: Expected, *, keep: Collection[int] = ()) -> Window:
        """One call for each element of `calls`, each in memory of its own, back to back."""
        if self._lost:
            return Window(self._lost)
        limit_s = min(self.settings.window_s, self.settings.call_s * max(len(calls), 1))
        try:
            asked = self._call(calls, expected, keep, limit_s)
        except Lost as lost:
            return Window(self._end(lost, "in forward"))
        if isinstance(asked, Failure):
            return Window(asked)
        nothing = (None,) * len(expected.shapes)
        return Window(
            calls=len(calls),
            forward_us=asked.forward_us,
            copy_us=asked.copy_us,
            probed=asked.probed,
            outputs=tuple(
                (call, nothing if call in asked.misfits else tuple(asked.taken[call])) for call in sorted(keep)
            ),
            unwritten=tuple(sorted({call for call, _ in asked.unwritten} - asked.misfits)),
            changed=tuple(sorted({call for call, _ in asked.changed})),
            guards=asked.guards,
            waited_us=asked.waited_us,
            own_us=asked.own_us,
        )

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
            arena = self._room(layout)
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Read(tuple(places.items()))))
                message = wire.await_message(self.settings.weights_s, self._serve)
        except Lost as lost:
            return State(self._end(lost, "while its state was read"))
        failure = self._failed(message, "read")
        copied = message.get("read")
        if failure or not isinstance(copied, list):
            return State(failure or self._end(Lost("wrote garbage to its channel to the judge"), ""))
        return State(tensors=tuple((name, arena.take(place)) for name, place in places.items() if name in copied))

    def changes(self) -> tuple[Change, ...] | None:
        """What the whole process shares and is otherwise than before the candidate came, as the child tells it;
        None where there is no child any more."""
        if self._lost:
            return None
        try:
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Look()))
                message = wire.await_message(self.settings.call_s, self._serve)
        except Lost as lost:
            self._end(lost, "while its surroundings were looked at")
            return None
        told = message.get("changes")
        return tuple(_change(item) for item in told[:_CHANGES]) if isinstance(told, list) else ()

    def ledger(self, calls: "Sequence[Sequence[Tensor]]") -> tuple[tuple[str, float], ...]:
        """What runs in these calls, as the child tells it: (name, share of the time). Empty where it does not."""
        if self._lost:
            return ()
        given = [plain(self.problem, leaves) for leaves in calls]
        layout = Layout()
        inputs = _all_places(self.problem, layout, given)
        try:
            arena = self._room(layout)
            for places, leaves in zip(inputs, given, strict=True):
                for place, leaf in zip(places, leaves, strict=True):
                    arena.put(place, leaf)
            with self._awake() as wire:
                wire.send(pickle.dumps(child.Record(tuple(inputs))))
                message = wire.await_message(self.settings.start_s, self._serve)
        except Lost as lost:
            self._end(lost, "under the profiler")
            return ()
        return ledger.shares(message.get("ledger"))

    def abort(self) -> None:
        """Ends the child from any thread: the step under way answers with a failure."""
        self._aborted = True
        wire = self._wire
        if wire is not None:
            wire.kill()

    def close(self) -> None:
        """Ends the child. Idempotent."""
        if self._wire:
            self._note_memory()
            self._wire.close()
            self._log = self._wire.text
            self._wire = None
        if self._arena:
            self._arena.close()
            self._arena = None
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
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
            readable=(*_python_folders(), *_system_files(), *self._granted()),
            writable=(self._scratch, "/dev/null"),
            limits=Limits(memory_bytes=settings.memory_bytes),
            threads=settings.threads or torch.get_num_threads(),
            allow_weaker=settings.allow_weaker,
        )
        try:
            wire.send(pickle.dumps(order))
            message = wire.await_message(_CONFINE_S, self._serve)
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
        self._note_memory()

    def _note_memory(self) -> None:
        if self._wire and self._held:
            used = self._wire.peak_bytes() - self._held - (self._arena.size if self._arena else 0)
            self._peak = max(self._peak or 0, used)

    def _room(self, layout: Layout) -> Arena:
        """The arena, known to the child and large enough for `layout`."""
        wire = self._wire
        assert wire is not None
        if self._arena is None or self._arena.size < layout.size:
            if self._arena:
                self._arena.close()
            self._arena = Arena(layout.size + layout.size // 4)
            wire.memory_limit = self._held + self.settings.memory_bytes + 2 * self._arena.size
            wire.resume()
            wire.send(pickle.dumps(child.Map()), (self._arena.file,))
        return self._arena

    def _call(
        self, calls: "Sequence[Sequence[Tensor]]", expected: Expected, keep: Collection[int], limit_s: float
    ) -> "_Asked | Failure":
        given = [plain(self.problem, leaves) for leaves in calls]
        layout = Layout()
        inputs = _all_places(self.problem, layout, given)
        small = layout.size <= _CHECKED_BYTES
        probes = [
            child.Probe(call, slot, call in keep, _rows(expected))
            for slot, call in enumerate(_choose(len(calls), keep))
        ]
        slots = [_slot(layout, expected, probe) for probe in probes]
        arena = self._room(layout)
        with self._awake() as wire:
            wire.send(
                pickle.dumps(
                    child.Call(tuple(inputs), tuple(slots), expected.template, expected.shapes, expected.dtypes)
                )
            )
            failure = self._failed(wire.await_message(self.settings.call_s, self._serve), "ready")
            if failure:
                return failure
            # The child has built its tensors and is stopped; only now are the inputs written. Whatever it does with
            # them it does on the clock.
            wire.stop()
            for places, leaves in zip(inputs, given, strict=True):
                for place, leaf in zip(places, leaves, strict=True):
                    arena.put(place, leaf)
            waited, own = wire.waited_ns(), time.process_time_ns()
            began = time.perf_counter_ns()
            wire.go()
            message = wire.await_done(limit_s, self._serve)
            returned = time.perf_counter_ns()
            wire.stop()
            own, waited = time.process_time_ns() - own, wire.waited_ns() - waited
            if message:
                return self._failure(message)
            # Only now does the child learn what of its results is wanted, and only as much of it is copied at once as
            # cannot shelter work that is still going on.
            for place in (place for places in slots for place in places):
                arena.poison(place)
            copying = copied = 0
            if probes:
                asked = pickle.dumps(probes)
                copying = time.perf_counter_ns()
                wire.go(asked)
                message = wire.await_done(limit_s, self._serve)
                copied = time.perf_counter_ns()
                wire.stop()
                if message:
                    return self._failure(message)
            parts = {
                probe.call: [arena.rows(place, rows) for place, rows in zip(slots[probe.slot], probe.rows, strict=True)]
                for probe in probes
                if probe.whole
            }
            if parts:
                wire.go()
                message = wire.await_done(limit_s, self._serve)
                wire.stop()
                if message:
                    return self._failure(message)
            # Everything is taken while the child is stopped, before it may run again to tell of its results.
            taken = {probe.call: [arena.take(place) for place in slots[probe.slot]] for probe in probes if probe.whole}
            unwritten = [
                (probe.call, leaf)
                for probe in probes
                for leaf, place in enumerate(slots[probe.slot])
                if arena.unwritten(place)
                or (probe.whole and parts[probe.call][leaf] != arena.rows(place, probe.rows[leaf]))
            ]
            looked = range(len(calls)) if small else [probe.call for probe in probes]
            changed = [
                (call, leaf)
                for call in looked
                for leaf, place in enumerate(inputs[call])
                if not arena.same(place, given[call][leaf])
            ]
            guards = all(arena.guarded(place) for places in slots for place in places)
            wire.resume()
            message = wire.await_message(self.settings.call_s, self._serve)
            failure = self._failed(message, "returned")
            if failure:
                return failure
        misfits = message.get("misfits")
        template, declared = _declared(message["returned"])
        return _Asked(
            template=template,
            declared=declared,
            taken=taken,
            misfits=frozenset(i for i in misfits if isinstance(i, int)) if isinstance(misfits, list) else frozenset(),
            unwritten=unwritten,
            changed=changed,
            guards=guards,
            probed=len(probes),
            forward_us=(returned - began) / 1000,
            copy_us=(copied - copying) / 1000,
            waited_us=waited / 1000,
            own_us=own / 1000,
        )

    def _serve(self, message: dict[str, Any]) -> bytes | None:
        """Answers a build request."""
        if "build" not in message:
            return None
        self._builds += 1
        began = time.perf_counter()
        try:
            if self._builds > _MOST_BUILDS:
                raise CompileError(f"a candidate may compile at most {_MOST_BUILDS} sources")
            answer = encode(self._broker.build(self._request(message["build"])))
        except KernelwrightError as error:
            kind = "MissingError" if isinstance(error, MissingError) else "CompileError"
            answer = {"error": kind, "message": str(error)}
        finally:
            self._build_s += time.perf_counter() - began
        return pickle.dumps(answer)

    def _request(self, asked: Any) -> BuildRequest:
        try:
            request = decode(BuildRequest, asked)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise CompileError("the request to compile is malformed") from None
        words = [request.language, request.source, *(word for option in request.options for word in option)]
        if not all(isinstance(word, str) for word in words):
            raise CompileError("the request to compile is malformed")
        if request.language == "inductor" and not self._asks_for_the_problem(request):
            raise CompileError("Inductor compiles the problem itself and nothing else: it runs that text outside")
        return request

    def _asks_for_the_problem(self, request: BuildRequest) -> bool:
        """Source, signature and numerics are the problem's own, so that a candidate cannot have a process without
        sandbox run or allocate what it likes."""
        own = {"signature": encode(self.problem.signature), "numerics": encode(self.problem.numerics)}
        try:
            asked = {name: json.loads(value) for name, value in request.options if name in own}
        except ValueError:
            return False
        return request.source == self.problem.source and all(asked[name] == own[name] for name in asked)

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


@dataclass
class _Asked:
    """What one order to call gave."""

    template: str
    declared: tuple[Declared, ...]
    taken: "dict[int, list[Tensor]]"
    """Results of the calls to keep."""
    misfits: frozenset[int]
    unwritten: list[tuple[int, int]]
    """(call, output)"""
    changed: list[tuple[int, int]]
    """(call, input)"""
    guards: bool
    probed: int
    forward_us: float
    copy_us: float
    waited_us: float
    own_us: float


_CONFINE_S = 180.0
"""A first child waits until the forkserver has imported torch."""
_CHECKED_BYTES = 16 << 20
"""Up to this, the inputs of all timed calls are compared; beyond, those of the probed ones."""
_PROBES = 8
"""Calls of a window whose results are looked at: many enough that waking the child does not drown what a copy costs,
few enough that all the copying is short beside the calls."""
_PROBED_BYTES = 1 << 16
"""Of each output of a probed call, about so much is copied on the clock."""
_MOST_BUILDS = 64
_CHANGES = 20
_WHY_CHARACTERS = 2000


def _choose(calls: int, keep: Collection[int]) -> list[int]:
    """The calls to be probed: those to keep, others at random, in random order."""
    chosen = list(keep)
    others = [call for call in range(calls) if call not in set(keep)]
    chosen += random.sample(others, min(len(others), max(0, _PROBES - len(chosen))))
    random.shuffle(chosen)
    return chosen


def _slot(layout: Layout, expected: Expected, probe: child.Probe) -> tuple[Place, ...]:
    """Places for the whole of a result, or for the rows of the probe alone."""
    places = []
    for shape, dtype, rows in zip(expected.shapes, expected.dtypes, probe.rows, strict=True):
        if rows and not probe.whole:
            shape = (rows[1] - rows[0], *shape[1:])
        places.append(layout.contiguous(dtype, shape))
    return tuple(places)


def _rows(expected: Expected) -> tuple[tuple[int, int] | None, ...]:
    """For each output the rows to be copied on the clock, at a random place."""
    import torch

    chosen: list[tuple[int, int] | None] = []
    for shape, dtype in zip(expected.shapes, expected.dtypes, strict=True):
        size = math.prod(shape) * getattr(torch, dtype).itemsize
        if size <= _PROBED_BYTES or shape[0] < 2:
            chosen.append(None)
        else:
            count = max(1, shape[0] * _PROBED_BYTES // size)
            first = random.randrange(shape[0] - count + 1)
            chosen.append((first, first + count))
    return tuple(chosen)


def _all_places(problem: Problem, layout: Layout, calls: "Sequence[Sequence[Tensor]]") -> list[tuple[Place, ...]]:
    """Places for the leaves of each call. Those of a timed window are alike: then they are worked out once."""
    if not calls:
        return []
    start = layout.size
    first = _places(problem, layout, calls[0])
    step, kind = layout.size - start, _kind(calls[0])
    found = [first]
    for leaves in calls[1:]:
        if _kind(leaves) == kind:
            shift = layout.size - start
            moved = (
                Place(place.offset + shift, place.span_bytes, place.dtype, place.shape, place.stride, place.lead)
                for place in first
            )
            found.append(tuple(moved))
            layout.size += step
        else:
            found.append(_places(problem, layout, leaves))
    return found


def _kind(leaves: "Sequence[Tensor]") -> list[tuple[object, ...]]:
    return [(leaf.dtype, leaf.shape, leaf.stride(), leaf.storage_offset()) for leaf in leaves]


def _places(problem: Problem, layout: Layout, leaves: "Sequence[Tensor]") -> tuple[Place, ...]:
    places: list[Place] = []
    for index, leaf in enumerate(leaves):
        specs = problem.signature.tensors
        alias = specs[index].alias_of if index < len(specs) else None
        places.append(layout.like(leaf) if alias is None else places[alias])
    return tuple(places)


def _declared(returned: Any) -> tuple[str, tuple[Declared, ...]]:
    """What a child says of its result, as far as it is well-formed."""
    if not isinstance(returned, dict) or not isinstance(returned.get("tensors"), list):
        return "", ()
    found = []
    for item in returned["tensors"][:1000]:
        try:
            found.append(
                Declared(
                    kind=str(item["kind"])[:100],
                    dtype=str(item["dtype"])[:100],
                    shape=tuple(int(size) for size in item["shape"]),
                    stride=tuple(int(size) for size in item["stride"]),
                    device=str(item["device"])[:100],
                    input_alias=None if item["input_alias"] is None else int(item["input_alias"]),
                    output_alias=None if item["output_alias"] is None else int(item["output_alias"]),
                    state_alias=None if item["state_alias"] is None else str(item["state_alias"])[:200],
                )
            )
        except (TypeError, ValueError, KeyError, OverflowError):
            return "", ()
    return str(returned.get("template"))[:10000], tuple(found)


def _change(told: Any) -> Change:
    what, matters = told if isinstance(told, list) and len(told) == 2 else ("it would not say", True)
    return Change(str(what)[:300], matters is not False)


def _python_folders() -> list[str]:
    """Where this Python and its packages lie."""
    import kernelwright

    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(kernelwright.__file__).parent)]
    packages = ("site-packages", "dist-packages", "lib-dynload")
    found += [entry for entry in sys.path if Path(entry).name in packages or entry == site.getusersitepackages()]
    # An editable install or a wheel unpacked elsewhere: what is imported already may import more of itself.
    for name in ("torch", "numpy"):
        file = getattr(sys.modules.get(name), "__file__", None)
        found += [str(Path(file).parent)] if file else []
    if sys.base_prefix.startswith("/nix/"):
        found.append("/nix/store")
    return sorted(set(found))


def _system_files() -> list[str]:
    return [
        "/usr",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/dev/urandom",
        "/dev/null",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/sys/devices/system/cpu",
    ]
