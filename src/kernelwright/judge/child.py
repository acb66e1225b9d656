"""What runs in a child: it confines itself, then does what the judge orders, one candidate in all.

This code shares its process with the candidate, which may change any of it. Therefore nothing here decides anything: a
lie told from here can only make the candidate fail, or cost it time on the judge's clock.
"""

import gc
import json
import os
import pickle
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from kernelwright.errors import CompileError, MissingError
from kernelwright.judge import frames, ledger
from kernelwright.judge.arena import Block, Place
from kernelwright.judge.grounds import CpuGround, Ground, TheirArena
from kernelwright.judge.neighbours import Operators
from kernelwright.records import Build, BuildRequest, Candidate, Problem, decode, encode, flatten, unflatten
from kernelwright.sandbox import Limits, confine
from kernelwright.targets.names import Names
from kernelwright.targets.surroundings import Surroundings

_CHANGES = 100
_TRACE_CHARACTERS = 2000


@dataclass(frozen=True)
class Confine:
    """First order: close the sandbox."""

    ground: Ground
    variables: tuple[tuple[str, str], ...]
    """Of the environment, beyond those of every child."""
    devices: tuple[str, ...]
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    limits: Limits
    execute: bool
    threads: int
    allow_weaker: bool


@dataclass(frozen=True)
class Construct:
    """Make the candidate's module."""

    problem: Problem
    candidate: Candidate


@dataclass(frozen=True)
class Map:
    """The file that comes along is the arena from now on."""

    size: int


@dataclass(frozen=True)
class Load:
    """Load weights from the arena; then, on a go, prepare()."""

    weights: tuple[tuple[str, Place], ...]


@dataclass(frozen=True)
class Series:
    """Where the inputs of calls lie and where results go, for all windows that follow.

    A window is a go with a number of calls, answered when they have returned. A second go then says whose results are
    copied to the slots, which is answered too if there are any, and whether the first call's are to be described."""

    inputs: Block
    slots: Block
    template: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


CALLS = struct.Struct("<II")
"""What the first go of a window says: how many calls, and whether their results must be ready in the order of the
stream that is current where they return, as whoever uses them next takes for granted."""


BESIDE = 0xFFFFFFFF
"""Revealed in place of a call: nothing is copied, stock operators run."""


def reveal(calls: Sequence[int], describe: bool) -> bytes:
    """What the second go of a window says."""
    return struct.pack(f"<{1 + len(calls)}I", describe, *calls)


@dataclass(frozen=True)
class Record:
    """Call the module once for each group of `inputs` under a profiler and tell what ran."""

    inputs: Block


@dataclass(frozen=True)
class Watch:
    """Call the module once with `inputs` on builds that tell what its kernels do wrong; the estimate is for `chip`."""

    inputs: Block
    chip: str


@dataclass(frozen=True)
class Read:
    """Copy entries of the state_dict out."""

    state: tuple[tuple[str, Place], ...]


@dataclass(frozen=True)
class Look:
    """Tell what the whole process shares and is otherwise than before the candidate came."""

    names: bool
    """Whether to look also for replaced functions."""


class _Broker:
    """Asks the judge for builds."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def build(self, request: BuildRequest) -> Build:
        _tell(self._channel, {"build": encode(request)})
        body, _ = frames.receive(self._channel)
        answer = pickle.loads(body)
        if "path" in answer:
            return decode(Build, answer)
        kind = MissingError if answer["error"] == "MissingError" else CompileError
        raise MissingError(answer["message"]) if kind is MissingError else CompileError(answer["message"])


def main(channel: socket.socket, names: Names | None = None) -> None:
    """Serves orders until the judge closes the channel. `names`: as the forkserver looked them up."""
    module: Any = None
    arena: TheirArena | None = None
    ground: Ground = CpuGround()
    problem: Problem | None = None
    before: Surroundings | None = None
    stand: _Stand | None = None
    while True:
        try:
            body, files = frames.receive(channel)
        except EOFError:
            return
        try:
            if body[:1] == frames.GO:
                assert stand is not None
                stand.window(channel, module, body)
                continue
            order = pickle.loads(body)
            if isinstance(order, Confine):
                ground = order.ground
                _tell(channel, _confine(order))
            elif isinstance(order, Map):
                arena = ground.theirs(files[0], order.size)
            elif isinstance(order, Construct):
                problem = order.problem
                gc.disable()  # nothing is collected while a clock runs
                make = _constructor(order, _Broker(channel), ground)
                before = Surroundings.now(names)
                module = make()
                # What is there now stays; the collection after each window then looks at that window's remains only.
                gc.collect()
                gc.freeze()
                _tell(channel, {"constructed": callable(getattr(module, "prepare", None))})
            elif isinstance(order, Load):
                assert arena is not None and problem is not None
                _load(module, {name: arena.tensor(place) for name, place in order.weights}, problem.numerics.training)
                _tell(channel, {"loaded": True})
                if callable(getattr(module, "prepare", None)):
                    _await_go(channel, partial(_prepare, module, ground))
            elif isinstance(order, Series):
                assert arena is not None and problem is not None
                stand = _Stand(problem, arena, order, ground)
                _tell(channel, {"ready": True})
            elif isinstance(order, Record):
                assert arena is not None and problem is not None
                _tell(channel, {"ledger": _record(module, problem, arena, order, ground)})
            elif isinstance(order, Watch):
                assert arena is not None and problem is not None
                _tell(channel, {"watched": _watch(module, problem, arena, order, ground)})
            elif isinstance(order, Look):
                assert before is not None
                changes = before.changes(names=order.names)[:_CHANGES]
                _tell(channel, {"changes": [(change.what, change.matters) for change in changes]})
            elif isinstance(order, Read):
                assert arena is not None
                _tell(channel, {"read": _read(module, arena, order, ground)})
        except BaseException as error:  # foreign code may raise anything, SystemExit and KeyboardInterrupt too
            _tell(channel, _failure(error))
            del error


def _confine(order: Confine) -> dict[str, Any]:
    import torch

    os.setpgid(0, 0)
    scratch = order.writable[0]
    os.environ.update(TMPDIR=scratch, HOME=scratch, USER="nobody", **dict(order.variables))
    os.chdir(scratch)
    # Asked before the files are closed: with /proc/cpuinfo unreadable torch would silently run its slowest kernels.
    capability = torch.backends.cpu.get_cpu_capability()
    confinement = confine(
        order.readable,
        order.writable,
        order.limits,
        devices=order.devices,
        execute=order.execute,
        allow_weaker=order.allow_weaker,
        die_with_parent=True,
    )
    torch.set_num_threads(order.threads)
    order.ground.enter()
    return {"confined": str(confinement), "capability": capability}


def _constructor(order: Construct, broker: _Broker, ground: Ground) -> Callable[[], Any]:
    """What makes the candidate's module; none of its code has run before."""
    import torch

    from kernelwright.graph.reference import load_text
    from kernelwright.targets import use_broker
    from kernelwright.targets.program import load_candidate

    use_broker(broker)
    reference = load_text(order.problem.source, order.problem.name, import_paths=order.problem.import_paths)
    torch.manual_seed(0)
    init_args = reference.get_init_inputs()
    torch.seed()  # a state nobody can guess: setting a seed shows, whichever it is
    training = order.problem.numerics.training
    return partial(load_candidate, order.candidate, init_args, training=training, device=ground.device)


def _load(module: Any, weights: Mapping[str, Any], training: bool) -> None:
    module.load_state_dict(dict(weights))
    module.train(training)


def _prepare(module: Any, ground: Ground) -> None:
    import torch

    with torch.no_grad():
        module.prepare()
    ground.finish()


class _Stand:
    """Stands ready for windows: arguments on the arena's inputs, slots for results."""

    def __init__(self, problem: Problem, arena: TheirArena, order: Series, ground: Ground) -> None:
        self._problem, self._order, self._ground = problem, order, ground
        self._operators: Operators | None = None
        self._inputs = [list(map(arena.tensor, order.inputs.group(call))) for call in range(order.inputs.count)]
        self._slots = [list(map(arena.tensor, order.slots.group(slot))) for slot in range(order.slots.count)]
        self._arguments = [self._fresh(call) for call in range(order.inputs.count)]

    def window(self, channel: socket.socket, module: Any, go: bytes) -> None:
        """The calls that the first go asks for, the copying that the second does, and then, off the clock, all that
        must not fall into the next window: the judge stops this process once it has been told."""
        results: list[Any] = []
        firm: dict[int, list[Any]] = {}
        misfits: list[int] = []
        calls = 0
        try:
            token, more = frames.parse_go(go)
            calls, ordered = CALLS.unpack(more)
            if self._problem.gradients:
                module.between = bool(ordered)
            if not calls:
                self._ground.touch()
            with _conditions(self._problem, self._ground):
                for args, kwargs in self._arguments[:calls]:
                    results.append(module(*args, **kwargs))
            if ordered:
                firm.update(enumerate(map(self._ground.firm, results)))
            self._ground.finish()
            frames.send(channel, b"D" + token)
            token, more = frames.parse_go(frames.receive(channel)[0])
            describe, *asked = struct.unpack(f"<{len(more) // 4}I", more)
            if asked == [BESIDE]:
                self._operators = self._operators or Operators()
                self._operators()
                self._ground.finish()
                frames.send(channel, b"D" + token)
            elif asked:
                self._copy(results, firm, asked, misfits)
                self._ground.finish()
                frames.send(channel, b"D" + token)
            returned = _declared(results[0], self._arguments[0], module) if describe else None
        finally:
            results.clear()
            firm.clear()
            self._arguments[:calls] = map(self._fresh, range(calls))
            gc.collect()
        _tell(channel, {"returned": returned, "misfits": misfits})

    def _copy(self, results: list[Any], firm: dict[int, list[Any]], asked: list[int], misfits: list[int]) -> None:
        import torch

        order = self._order
        with torch.no_grad():
            for call, slots in zip(asked, self._slots, strict=False):
                leaves, template = flatten(results[call], _is_tensor)
                fit = template == order.template and all(map(_fits, leaves, order.shapes, order.dtypes))
                if fit and all(map(_plain, leaves)):
                    for leaf, slot in zip(firm.get(call) or leaves, slots, strict=True):
                        slot.copy_(leaf)
                else:
                    misfits.append(call)

    def _fresh(self, call: int) -> tuple[list[Any], dict[str, Any]]:
        """Tensor objects that no call has had: one may give its input another shape, or attributes."""
        return _arguments(self._problem, [tensor.detach() for tensor in self._inputs[call]])


@contextmanager
def _conditions(problem: Problem, ground: Ground) -> Iterator[None]:
    """Gradients and autocast as the problem's user has them."""
    import torch

    grad = torch.enable_grad if problem.signature.grad else torch.no_grad
    dtype = problem.numerics.autocast
    with grad(), torch.autocast(ground.device, dtype=getattr(torch, dtype)) if dtype else nullcontext():
        yield


def _record(module: Any, problem: Problem, arena: TheirArena, order: Record, ground: Ground) -> list[tuple[str, float]]:
    groups = map(order.inputs.group, range(order.inputs.count))
    arguments = [_arguments(problem, list(map(arena.tensor, places))) for places in groups]

    def run() -> None:
        with _conditions(problem, ground):
            for args, kwargs in arguments:
                module(*args, **kwargs)
        ground.finish()

    return ledger.record(run)


def _watch(module: Any, problem: Problem, arena: TheirArena, order: Watch, ground: Ground) -> dict[str, Any]:
    from dataclasses import asdict

    from kernelwright.targets.languages.metal import watching

    args, kwargs = _arguments(problem, list(map(arena.tensor, order.inputs.group(0))))
    with watching(order.chip) as watched, _conditions(problem, ground):
        module(*args, **kwargs)
    return asdict(watched)


def _arguments(problem: Problem, tensors: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    for index, spec in enumerate(problem.signature.tensors):
        if spec.alias_of is not None:
            tensors[index] = tensors[spec.alias_of]
    if problem.signature.arguments == _positional(len(tensors)):
        return tensors, {}
    call = unflatten(problem.signature.arguments, tensors)
    return list(call["args"]), dict(call["kwargs"])


@cache
def _positional(count: int) -> str:
    """The template of a call with so many tensors by position and nothing else."""
    return flatten({"args": list(range(count)), "kwargs": {}}, lambda value: isinstance(value, int))[1]


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _fits(leaf: Any, shape: tuple[int, ...], dtype: str) -> bool:
    return tuple(leaf.shape) == shape and str(leaf.dtype) == f"torch.{dtype}"


def _declared(result: Any, arguments: tuple[list[Any], dict[str, Any]], module: Any) -> dict[str, Any]:
    leaves, template = flatten(result, _is_tensor)
    inputs, _ = flatten({"args": arguments[0], "kwargs": arguments[1]}, _is_tensor)
    state = dict(module.state_dict(keep_vars=True))
    described = []
    for index, leaf in enumerate(leaves):
        described.append(
            {
                "kind": _kind(leaf),
                "dtype": str(leaf.dtype).removeprefix("torch."),
                "shape": list(leaf.shape),
                "stride": list(leaf.stride()) if _dense(leaf) else [],
                "device": str(leaf.device),
                "input_alias": _alias(leaf, list(enumerate(inputs))),
                "output_alias": _alias(leaf, list(enumerate(leaves[:index]))),
                "state_alias": _alias(leaf, list(state.items())),
            }
        )
    return {"template": template, "tensors": described}


def _plain(leaf: Any) -> bool:
    """Whether it computes nothing when it is copied, as a subclass may. A class is asked for itself: any may be called
    Tensor."""
    import torch

    return type(leaf) in (torch.Tensor, torch.nn.Parameter)


def _kind(leaf: Any) -> str:
    name = type(leaf).__name__
    return f"{name} of its own" if name in ("Tensor", "Parameter") and not _plain(leaf) else name


def _dense(tensor: Any) -> bool:
    import torch

    return tensor.layout is torch.strided


def _alias(leaf: Any, others: Sequence[tuple[Any, Any]]) -> Any:
    """The name of the first of `others` that lives in the same storage."""
    if not _dense(leaf) or not leaf.numel():
        return None
    mine = leaf.untyped_storage()
    for name, other in others:
        if _is_tensor(other) and _dense(other) and other.untyped_storage().data_ptr() == mine.data_ptr():
            return name
    return None


def _read(module: Any, arena: TheirArena, order: Read, ground: Ground) -> list[str]:
    import torch

    found = module.state_dict()
    copied = []
    with torch.no_grad():
        for name, place in order.state:
            slot = arena.tensor(place)
            if name in found and _fits(found[name], place.shape, place.dtype):
                slot.copy_(found[name])
                copied.append(name)
    ground.finish()
    return copied


def _await_go(channel: socket.socket, step: Callable[[], None]) -> None:
    """Does the step on the judge's word and reports it done, or that it raised."""
    token, _ = frames.parse_go(frames.receive(channel)[0])
    try:
        step()
    except BaseException as error:  # see main
        _tell(channel, _failure(error))
        return
    frames.send(channel, b"D" + token)


def _tell(channel: socket.socket, message: Mapping[str, Any]) -> None:
    sys.stdout.flush()  # print() must not be lost with the process
    frames.send(channel, b"J" + json.dumps(message).encode())


def _failure(error: BaseException) -> dict[str, Any]:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    kinds = [kind.__name__ for kind in type(error).__mro__]
    if "CompileError" not in kinds:  # which names its place itself
        sys.stderr.write("".join(traceback.format_exception(error))[-_TRACE_CHARACTERS:])
        sys.stderr.flush()
    return {"failed": next((kind for kind in kinds if kind in ("CompileError", "MissingError")), kinds[0]), "why": text}
