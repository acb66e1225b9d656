"""What runs in a child: it confines itself, then does what the judge orders, one candidate in all.

This code shares its process with the candidate, which may change any of it. Therefore nothing here decides anything: a
lie told from here can only make the candidate fail, or cost it time on the judge's clock.
"""

import gc
import json
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from kernelwright.errors import CompileError, MissingError
from kernelwright.judge import frames, ledger
from kernelwright.judge.arena import ChildArena, Place
from kernelwright.records import Build, BuildRequest, Candidate, Problem, decode, encode, flatten, unflatten
from kernelwright.sandbox import Limits, confine
from kernelwright.targets.surroundings import Surroundings

_CHANGES = 100
_TRACE_CHARACTERS = 2000


@dataclass(frozen=True)
class Confine:
    """First order: close the sandbox."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    limits: Limits
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


@dataclass(frozen=True)
class Load:
    """Load weights from the arena; then, on a go, prepare()."""

    weights: tuple[tuple[str, Place], ...]


@dataclass(frozen=True)
class Call:
    """Call the module once for each element of `inputs`, on a first go. On a second, which names calls and parts of
    their results (Probe), copy those out; on a third copy results whole where that is wanted. Goes with nothing to do
    do not come."""

    inputs: tuple[tuple[Place, ...], ...]
    slots: tuple[tuple[Place, ...], ...]
    template: str
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True)
class Probe:
    """The result of call `call` goes to slot `slot`; at first only these rows (of the first dimension) of each leaf."""

    call: int
    slot: int
    whole: bool
    """Whether the slot has room for all of the result, else for the rows alone."""
    rows: tuple[tuple[int, int] | None, ...]
    """None: the whole leaf."""


@dataclass(frozen=True)
class Record:
    """Call the module once for each element of `inputs` under a profiler and tell what ran."""

    inputs: tuple[tuple[Place, ...], ...]


@dataclass(frozen=True)
class Read:
    """Copy entries of the state_dict out."""

    state: tuple[tuple[str, Place], ...]


@dataclass(frozen=True)
class Look:
    """Tell what the whole process shares and is otherwise than before the candidate came."""


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


def main(channel: socket.socket) -> None:
    """Serves orders until the judge closes the channel."""
    module: Any = None
    arena: ChildArena | None = None
    problem: Problem | None = None
    before: Surroundings | None = None
    while True:
        try:
            body, files = frames.receive(channel)
        except EOFError:
            return
        order = pickle.loads(body)
        try:
            if isinstance(order, Confine):
                _tell(channel, _confine(order))
            elif isinstance(order, Map):
                arena = ChildArena(files[0])
            elif isinstance(order, Construct):
                problem = order.problem
                make = _constructor(order, _Broker(channel))
                before = Surroundings.now()
                module = make()
                # What is there now stays; a collection before each call then looks at that call's remains only.
                gc.collect()
                gc.freeze()
                _tell(channel, {"constructed": callable(getattr(module, "prepare", None))})
            elif isinstance(order, Load):
                assert arena is not None and problem is not None
                _load(module, {name: arena.tensor(place) for name, place in order.weights}, problem.numerics.training)
                _tell(channel, {"loaded": True})
                if callable(getattr(module, "prepare", None)):
                    _await_go(channel, partial(_prepare, module))
            elif isinstance(order, Call):
                assert arena is not None and problem is not None
                _call(channel, module, problem, arena, order)
            elif isinstance(order, Record):
                assert arena is not None and problem is not None
                _tell(channel, {"ledger": _record(module, problem, arena, order)})
            elif isinstance(order, Look):
                assert before is not None
                _tell(channel, {"changes": [(change.what, change.matters) for change in before.changes()[:_CHANGES]]})
            elif isinstance(order, Read):
                assert arena is not None
                _tell(channel, {"read": _read(module, arena, order)})
        except BaseException as error:  # foreign code may raise anything, SystemExit and KeyboardInterrupt too
            _tell(channel, _failure(error))
            del error


def _confine(order: Confine) -> dict[str, Any]:
    import torch

    os.setpgid(0, 0)
    scratch = order.writable[0]
    os.environ.update(TMPDIR=scratch, HOME=scratch, USER="nobody")
    os.chdir(scratch)
    # Asked before the files are closed: with /proc/cpuinfo unreadable torch would silently run its slowest kernels.
    capability = torch.backends.cpu.get_cpu_capability()
    confinement = confine(
        order.readable, order.writable, order.limits, allow_weaker=order.allow_weaker, die_with_parent=True
    )
    torch.set_num_threads(order.threads)
    return {"confined": str(confinement), "capability": capability}


def _constructor(order: Construct, broker: _Broker) -> Callable[[], Any]:
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
    return partial(load_candidate, order.candidate, init_args, training=order.problem.numerics.training)


def _load(module: Any, weights: Mapping[str, Any], training: bool) -> None:
    module.load_state_dict(dict(weights))
    module.train(training)


def _prepare(module: Any, _: bytes) -> None:
    import torch

    with torch.no_grad():
        module.prepare()


def _call(channel: socket.socket, module: Any, problem: Problem, arena: ChildArena, order: Call) -> None:
    import torch

    arguments = [_arguments(problem, list(map(arena.tensor, places))) for places in order.inputs]
    slots = [[arena.tensor(place) for place in places] for places in order.slots]
    results: list[Any] = []
    probes: list[Probe] = []
    misfits: list[int] = []

    def forward(_: bytes) -> None:
        with _conditions(problem):
            for args, kwargs in arguments:
                results.append(module(*args, **kwargs))

    def copy_parts(body: bytes) -> None:
        probes.extend(pickle.loads(body))
        with torch.no_grad():
            for probe in probes:
                leaves, template = flatten(results[probe.call], _is_tensor)
                if template != order.template or not all(map(_fits, leaves, order.shapes, order.dtypes)):
                    misfits.append(probe.call)
                    continue
                for leaf, slot, rows in zip(leaves, slots[probe.slot], probe.rows, strict=True):
                    if rows:
                        leaf = leaf[rows[0] : rows[1]]
                        slot = slot[rows[0] : rows[1]] if probe.whole else slot
                    slot.copy_(leaf)

    def copy_whole(_: bytes) -> None:
        with torch.no_grad():
            for probe in probes:
                if probe.whole:
                    leaves = flatten(results[probe.call], _is_tensor)[0]
                    for leaf, slot in zip(leaves, slots[probe.slot], strict=False):
                        if leaf.shape == slot.shape and leaf.dtype == slot.dtype:
                            slot.copy_(leaf)

    # Before it says ready: from then on it may be stopped anywhere, and what is left to do falls into the timed call.
    gc.collect()
    gc.disable()
    _tell(channel, {"ready": True})
    try:
        done = _await_go(channel, forward)
        if done and results:
            done = _await_go(channel, copy_parts)
        if done and any(probe.whole for probe in probes):
            done = _await_go(channel, copy_whole)
        if done:
            returned = _declared(results[0], arguments[0], module) if results else None
            _tell(channel, {"returned": returned, "misfits": misfits})
    finally:
        gc.enable()


@contextmanager
def _conditions(problem: Problem) -> Iterator[None]:
    """Gradients and autocast as the problem's user has them."""
    import torch

    grad = torch.enable_grad if problem.signature.grad else torch.no_grad
    dtype = problem.numerics.autocast
    with grad(), torch.autocast("cpu", dtype=getattr(torch, dtype)) if dtype else nullcontext():
        yield


def _record(module: Any, problem: Problem, arena: ChildArena, order: Record) -> list[tuple[str, float]]:
    arguments = [_arguments(problem, list(map(arena.tensor, places))) for places in order.inputs]

    def run() -> None:
        with _conditions(problem):
            for args, kwargs in arguments:
                module(*args, **kwargs)

    return ledger.record(run)


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
                "kind": type(leaf).__name__,
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


def _read(module: Any, arena: ChildArena, order: Read) -> list[str]:
    import torch

    found = module.state_dict()
    copied = []
    with torch.no_grad():
        for name, place in order.state:
            slot = arena.tensor(place)
            if name in found and _fits(found[name], place.shape, place.dtype):
                slot.copy_(found[name])
                copied.append(name)
    return copied


def _await_go(channel: socket.socket, step: Callable[[bytes], None]) -> bool:
    """Does the step on the judge's word and reports it done; False where it raised, which is told instead."""
    body, _ = frames.receive(channel)
    token, more = body[: frames.TOKEN_BYTES], body[frames.TOKEN_BYTES :]
    try:
        step(more)
    except BaseException as error:  # see main
        _tell(channel, _failure(error))
        return False
    frames.send(channel, b"D" + token)
    return True


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
