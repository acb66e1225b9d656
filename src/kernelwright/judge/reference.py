"""The problem's reference as the judge asks it: right answers, what error they grant, and other weights.

Runs the user's own code, in the judge's process, never a candidate's.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch

from kernelwright import problems
from kernelwright.graph.reference import build_reference
from kernelwright.judge import budget
from kernelwright.judge.budget import Allowance, allowance, allowances, counted
from kernelwright.judge.cases import told
from kernelwright.judge.device_arena import moved
from kernelwright.judge.examination import examine
from kernelwright.judge.oracle import Truth, ask, doubled, leaves_of, restart_noise
from kernelwright.judge.patience import patience
from kernelwright.judge.rows import Found, Pieces, in_rows
from kernelwright.judge.session import Expected
from kernelwright.problems.footprint import footprint
from kernelwright.records import Case, Problem, unflatten

_PROBES = ("nan_probe", "inf_probe")
_KINK = 2.0**-14
"""How far inputs and results of operations are moved to find decisions that are near: 2**10 roundings of float32."""
_LEAST_S = 20.0
_SLOWER = 20.0
"""Inputs of other families may take so much longer than the reference's own; beyond, they say nothing."""
_SLOW_S = 0.05
_LIGHTEST = 64
"""What has inputs and results of less than this part of what is large is not asked what lies between them."""
_MORE = 8
_ALIKE = ("constant", "heavy_tailed", "one_hot", "sorted")


@dataclass(frozen=True)
class Answer:
    """What a call must return."""

    expected: Expected
    wanted: tuple[Allowance, ...]
    mutated: frozenset[int]
    """Input leaves that the reference itself changes."""
    shares: tuple[bool, ...]
    """Which outputs of the reference lie in an input, in a weight or in another output."""
    informative: bool
    """False where half of some output overflows, or is decided by roundings."""

    @property
    def bytes(self) -> int:
        """What keeping it costs."""
        return sum(item.value.nbytes + item.own.nbytes + item.allowed.nbytes for item in self.wanted)


def _is_own(case: Case) -> bool:
    """Whether a case has the very inputs that the problem's text draws."""
    return replace(case, seed=0, hidden=False) == Case("nominal", 0)


class Reference:
    """One problem's reference with its weights. Thread-safe: one question at a time."""

    def __init__(
        self,
        problem: Problem,
        weights: Mapping[str, torch.Tensor] | None,
        cache_bytes: int,
        limit_s: float = 300.0,
        device: str = "cpu",
        pieces: Pieces = Pieces(),
    ) -> None:
        """`limit_s`: for one answer on its own inputs. All of it runs on `device`, where inputs and answers lie too.
        Raises ProblemError if the reference cannot be built."""
        self.problem = problem
        self._lock = threading.RLock()
        self._base = problems.weights(problem, weights, "original", 0)
        self._device = device
        self._module = placed(build_reference(problem, self._base), device)
        self._wide = doubled(self._module)
        self._loaded: tuple[str, int] = ("original", 0)
        self._cache: dict[str, tuple[list[torch.Tensor], Answer | None]] = {}
        self._room, self._held = cache_bytes, 0
        self._pieces = pieces
        self._limit_s, self._took_s = limit_s, 0.0
        self.note = ""
        """Where an answer is not float64 throughout: what was done instead, and why."""

    @property
    def slow(self) -> bool:
        """Whether an answer takes so long that a pool of them is worth as much as a candidate's other judging. Known
        once a case of its own inputs was asked."""
        return self._took_s > _SLOW_S

    @property
    def weightless(self) -> bool:
        """Whether there is no parameter that could change."""
        return not any(value.is_floating_point() for value in self._base.values())

    def weights(self, case: Case | None = None) -> dict[str, torch.Tensor]:
        """The state_dict a case asks for; None: the original."""
        if case is None or case.weights == "original":
            return self._base
        return problems.weights(self.problem, self._base, case.weights, case.seed)

    def ask(self, case: Case, *, keep: bool = True) -> tuple[list[torch.Tensor], Answer | None]:
        """The inputs of `case` and their answer; None where the reference raises for such inputs."""
        with self._lock:
            found = self._cache.get(case.digest)
            if found is not None:
                return found
            leaves = [moved(leaf, self._device) for leaf in problems.arguments(self.problem, case)]
            made = leaves, self._laid_out(case, leaves, keep) or self._try(case, leaves)
            if keep and made[1] is not None:
                self._keep(case.digest, made)
            return made

    def _laid_out(self, case: Case, leaves: list[torch.Tensor], keep: bool) -> Answer | None:
        """The answer for the same numbers in plain memory, where the reference says the same in this layout: what is
        right does not depend on where numbers lie. None where it says something else or refuses."""
        if case.layout == "contiguous":
            return None
        try:
            with self._patience(case):
                self._load(case)
                own = self.run(leaves)  # before there is an answer: what a call makes between is not held beside it
        except Exception:  # as the user's code may refuse a layout
            return None
        _, answer = self.ask(replace(case, layout="contiguous"), keep=keep)
        if answer is None:
            return None
        same = len(own) == len(answer.wanted) and all(
            mine.shape == item.own.shape and mine.dtype == item.own.dtype and not examine(mine, item).wrong
            for mine, item in zip(own, answer.wanted, strict=True)
        )
        return answer if same else None

    def answer(self, leaves: Sequence[torch.Tensor], case: Case) -> Answer:
        """The answer for these very inputs, under the weights of `case`. Raises what the reference raises."""
        with self._lock, torch.no_grad():
            self._load(case)
            own, mutated, shares = self._as_run(leaves)
            results, template = leaves_of(own)
            found = self._in_rows(leaves, results, case) or self._as_a_whole(leaves, results, case)
        expected = Expected(
            template,
            tuple(tuple(result.shape) for result in results),
            tuple(str(result.dtype).removeprefix("torch.") for result in results),
        )
        self.note = self.note or found.note
        telling = case.family in _PROBES or all(_telling(item) for item in found.wanted)
        return Answer(expected, found.wanted, mutated, shares, telling)

    def reconsider(self, case: Case) -> Answer | None:
        """The answer of `case` with what _MORE further moved runs grant, for a result that is off in a few places: what
        hangs on a rounding (a softmax of two huge scores, nearly equal) can jump far, and by chance moves little in one
        run."""
        leaves, answer = self.ask(case)
        own = tuple(item.own for item in answer.wanted) if answer else ()
        if answer is None or self._work_bytes(leaves, own) > self._pieces.whole_bytes:
            return answer
        with self._lock, torch.no_grad():
            self._load(case)
            truth, wanted = self._exact(leaves, 0.0), answer.wanted
            tf32, alike = self._conditions(case)
            for more in range(1, 1 + _MORE):
                shaken = self._exact(leaves, budget.WOBBLE, seed=case.seed + more)
                found = allowances(truth, shaken, own, tf32=tf32, alike=alike)
                wanted = tuple(map(budget.wider, wanted, found))
            return replace(answer, wanted=wanted)

    def run(self, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The reference as its user runs it, with the weights loaded last."""
        with self._lock, torch.no_grad():
            return leaves_of(self._as_run(leaves)[0])[0]

    def _as_a_whole(self, leaves: Sequence[torch.Tensor], own: list[torch.Tensor], case: Case) -> Found:
        truth, shaken = self._exact(leaves, 0.0), self._exact(leaves, budget.WOBBLE, seed=case.seed)
        kinks = self._kinks(leaves, truth, own) if self.problem.gradients else None
        tf32, alike = self._conditions(case)
        return Found(allowances(truth, shaken, tuple(own), tf32=tf32, alike=alike, kinks=kinks), truth.note)

    def _in_rows(self, leaves: Sequence[torch.Tensor], own: list[torch.Tensor], case: Case) -> Found | None:
        """Only what is large, and runs in one precision: that of autocast is far from what rows grant of themselves."""
        work = self._work_bytes(leaves, own)
        if self.problem.gradients or self.problem.numerics.autocast or work <= self._pieces.whole_bytes:
            return None
        tf32, alike = self._conditions(case)
        grant = partial(allowance, tf32=tf32, alike=alike)
        return in_rows(leaves, own, self._exact, grant, work_bytes=work, pieces=self._pieces)

    def _work_bytes(self, leaves: Sequence[torch.Tensor], own: Sequence[torch.Tensor]) -> int:
        """Of what is given and returned, and of the largest that lies between, if that can be large."""
        given = sum(leaf.nbytes for leaf in leaves) + sum(item.nbytes for item in own)
        return given if given < self._pieces.whole_bytes // _LIGHTEST else given + self._largest_bytes

    @cached_property
    def _largest_bytes(self) -> int:
        """Of the largest tensor that a call on the example's sizes makes; 0 where that is not known."""
        cost = footprint(self.problem)
        return cost.largest_bytes if cost else 0

    def _conditions(self, case: Case) -> tuple[bool, bool]:
        """Whether sums of products may run in TF32, and whether many addends are about equal."""
        numerics = self.problem.numerics
        return numerics.tf32_conv or numerics.tf32_matmul, case.family in _ALIKE

    def _try(self, case: Case, leaves: list[torch.Tensor]) -> Answer | None:
        own = _is_own(case)
        began = time.monotonic()
        try:
            with self._patience(case):
                answer = self.answer(leaves, case)
            if own:
                self._took_s = max(self._took_s, time.monotonic() - began)
            return answer
        # The user's code may raise anything for inputs it was not written for; on its own inputs it is our caller's
        # business to complain.
        except Exception:
            if own:
                raise
            return None

    def _patience(self, case: Case) -> AbstractContextManager[None]:
        """Around what the user's code does for a case: longer than on its own inputs, but not for ever."""
        limit_s = self._limit_s if _is_own(case) or not self._took_s else max(_LEAST_S, _SLOWER * self._took_s)
        return patience(limit_s, f"the reference {self.problem.name} ({told(case)})")

    def _keep(self, digest: str, made: tuple[list[torch.Tensor], Answer | None]) -> None:
        """Where there is no room nothing older goes: candidates meet the pool's cases in one order, in which what was
        dropped last would always be what is asked for next."""
        size = _size(made)
        if self._held + size <= self._room:
            self._cache[digest] = made
            self._held += size

    def _load(self, case: Case) -> None:
        wanted = (case.weights, case.seed if case.weights != "original" else 0)
        if wanted != self._loaded:
            state = self.weights(case)
            for module in (self._module, self._wide):
                if isinstance(module, torch.nn.Module):
                    module.load_state_dict(state)
            self._loaded = wanted

    def _call(self, leaves: Sequence[torch.Tensor]) -> tuple[list[Any], dict[str, Any]]:
        call = unflatten(self.problem.signature.arguments, leaves)
        return list(call["args"]), dict(call["kwargs"])

    def _as_run(self, leaves: Sequence[torch.Tensor]) -> tuple[Any, frozenset[int], tuple[bool, ...]]:
        copies = _copies(leaves)
        versions = [leaf._version for leaf in copies]
        args, kwargs = self._call(copies)
        with ExitStack() as stack:
            if self.problem.numerics.autocast:
                stack.enter_context(torch.autocast(self._device, getattr(torch, self.problem.numerics.autocast)))
            result = _unmoved(self._module, lambda: self._module(*args, **kwargs))
        outputs = leaves_of(result)[0]
        foreign = {_memory(leaf) for leaf in copies} | {_memory(value) for value in self._module.state_dict().values()}
        memories = [_memory(output) for output in outputs]
        shares = tuple(memory in foreign or memories.count(memory) > 1 for memory in memories)
        mutated = frozenset(place for place, leaf in enumerate(copies) if leaf._version != versions[place])
        return result, mutated, shares

    def _exact(self, leaves: Sequence[torch.Tensor], wobble: float, seed: int | None = None) -> Truth:
        """`seed`: two runs with one seed are moved alike, to opposite sides where their wobbles have opposite signs."""
        if seed is not None:
            restart_noise(seed)
        args, kwargs = self._call(leaves)
        return _unmoved(self._wide, lambda: ask(self._module, self._wide, args, kwargs, wobble))

    def _kinks(
        self, leaves: Sequence[torch.Tensor], truth: Truth, own: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, ...]:
        """For each gradient how far it jumps where a decision in forward (the sign of a ReLU's input, the place of a
        maximum) may fall either way; None for results.

        Two runs are moved to opposite sides, much further than roundings reach: where the gradient is smooth, what they
        gain and lose cancels to the second order, and a jump, which only one of them takes, stays."""
        size = max(_KINK, 8 * max((torch.finfo(item.dtype).eps for item in own if item.is_floating_point()), default=0))
        sides = [self._exact(leaves, size, seed=1), self._exact(leaves, -size, seed=1)]
        first = len(own) - len(self.problem.gradients)
        return tuple(
            (one + other - 2 * value).abs() if place >= first else None
            for place, (value, one, other) in enumerate(
                zip(truth.outputs, sides[0].outputs, sides[1].outputs, strict=True)
            )
        )


def placed(module: Any, device: str) -> Any:
    """The module, or function, with its tensors on the device."""
    return module.to(device) if isinstance(module, torch.nn.Module) else module


def _copies(leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies, in which what was one tensor stays one tensor."""
    made: dict[int, torch.Tensor] = {}
    return [made.setdefault(id(leaf), leaf.clone()) for leaf in leaves]


def _unmoved(module: Any, call: Any) -> Any:
    """`call()`, after which the buffers of `module` are as before: one in training keeps statistics."""
    if not isinstance(module, torch.nn.Module):
        return call()
    buffers = [(buffer, buffer._version, buffer.clone()) for buffer in module.buffers()]
    result = call()
    for buffer, version, before in buffers:
        if buffer._version != version:
            with torch.no_grad():
                buffer.copy_(before)
    return result


def _telling(item: Allowance) -> bool:
    value = item.value
    if not value.numel():
        return True
    if item.choice is None and item.undecided > 0.5:
        return False
    return not value.is_floating_point() or 2 * counted(torch.isfinite, value) > value.numel()


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.numel() else -id(tensor)


def _size(made: tuple[list[torch.Tensor], Answer | None]) -> int:
    return sum(leaf.nbytes for leaf in made[0]) + (made[1].bytes if made[1] else 0)
