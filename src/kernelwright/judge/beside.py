"""What is timed, beside what: baselines that are kept warm, and the clock for all of them by turns."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import torch

from kernelwright.judge import neighbours, physics
from kernelwright.judge.awake import awake
from kernelwright.judge.clock import Known, Turns, time_turns
from kernelwright.judge.gate import Gate
from kernelwright.judge.grounds import Ground, Inputs
from kernelwright.judge.hearing import Hearing
from kernelwright.judge.noise import Noise
from kernelwright.judge.reference import Answer, Reference
from kernelwright.judge.session import Steps
from kernelwright.judge.settings import Settings
from kernelwright.judge.statistics import noise_floor, ratio
from kernelwright.judge.steps import plain
from kernelwright.records import Candidate, Case, Comparison, Environment

_AA_REPEATS = 3
_NOISE_S = 60.0
"""How long a measured floor stands: neighbours come and go."""
_FEW_DISTURBED = 2
"""Disturbed samples a repeat may hold, of both sides together."""


@dataclass
class _Held:
    """A baseline kept warm."""

    candidate: Candidate
    session: Steps
    known: Known | None = None
    """What timing it last has shown."""


@dataclass(frozen=True)
class Extent:
    """How much is timed."""

    rounds: int
    kept: int
    window_us: float
    budget_s: float
    enough: float = 0.0
    fewest: int = 0


class Beside:
    """The clock of one judge. Thread-safe: candidates are timed one after the other."""

    def __init__(
        self,
        reference: Reference,
        ground: Ground,
        gate: Gate,
        settings: Settings,
        environment: Environment,
        *,
        device: str,
        case: Case,
    ) -> None:
        """`case`: of whose inputs those of timed calls are made."""
        self._reference, self._ground, self._gate, self._settings = reference, ground, gate, settings
        self._environment, self._device, self._case = environment, device, case
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._noise = Noise()

    def holds(self, candidate: Candidate) -> bool:
        """Whether it is among the baselines."""
        with self._lock:
            return candidate.digest in self._held

    def hold(self, candidate: Candidate, session: Steps) -> None:
        """Times what follows beside it, too."""
        with self._lock:
            self._held[candidate.digest] = _Held(candidate, session)

    def let_go(self) -> list[Steps]:
        """The sessions of all baselines, which are none any more."""
        with self._lock:
            sessions = [item.session for item in self._held.values()]
            self._held.clear()
            return sessions

    def inputs(self) -> Inputs:
        """Makes the inputs of timed calls."""
        leaves, _ = self._reference.ask(self._case)
        return self._ground.inputs(plain(self._reference.problem, leaves), self._reference.problem.signature)

    def trial(self, sessions: Sequence[Steps]) -> tuple[Turns, ...]:
        """A short look at several candidates by turns."""
        settings = self._settings
        return self._turns(sessions, Extent(settings.trial_rounds, 0, settings.window_us, settings.submit_s))

    def time(self, hearing: Hearing, extent: Extent) -> tuple[Comparison, ...]:
        """Times a candidate beside all baselines. Raises Rejected."""
        held = [item for item in self._alive() if item.candidate.digest != hearing.session.candidate.digest]
        # Baselines first: they show what copying the results costs plainly.
        sessions = [item.session for item in held] + [hearing.session]
        *others, mine = self._turns(sessions, extent, [*(item.known for item in held), None])
        beside = [(item, turn) for item, turn in zip(held, others, strict=True) if turn.timing and not turn.failure]
        for item, turn in beside:
            item.known = turn.known
        best = min(beside, key=lambda pair: median_us(pair[1]), default=None)
        self._set_floor(hearing, mine)
        with self._gate.busy():
            hearing.timed(mine, best[1] if best else None)
        assert mine.timing is not None
        return tuple(_comparison(item.candidate, turn, mine) for item, turn in beside)

    def look(self, hearing: Hearing) -> None:
        """Times stock operators after its calls and after those of the baseline that is held longest."""
        held = [item.session for item in self._alive()]
        answer = self._answer()
        if held and hearing.session not in held:
            with self._quiet():
                found = neighbours.measure(held[0], hearing.session, self.inputs(), answer.expected)
            hearing.evidence = replace(hearing.evidence, neighbours=found)

    @property
    def noise_floor(self) -> float:
        """See Judge.noise_floor; without a baseline the remembered one."""
        held, noise = next(iter(self._alive()), None), self._noise
        if held is None:
            return noise.remembered(self._environment.digest)
        if noise.age_s > _NOISE_S:
            self._noise = noise = self._measure_noise(held.session)
        if noise.quiet:
            noise.remember(self._environment.digest)
            return noise.floor
        return noise.remembered(self._environment.digest)

    @property
    def unrest(self) -> float:
        """See Judge.unrest."""
        return self._noise.floor

    def _alive(self) -> list[_Held]:
        with self._lock:
            return [item for item in self._held.values() if item.session.lost is None]

    def _answer(self) -> Answer:
        _, answer = self._reference.ask(self._case)
        assert answer is not None
        return answer

    def _turns(
        self, sessions: Sequence[Steps], extent: Extent, known: Sequence[Known | None] = ()
    ) -> tuple[Turns, ...]:
        inputs, answer = self.inputs(), self._answer()
        with self._quiet():
            return time_turns(
                sessions,
                inputs,
                answer.expected,
                rounds=extent.rounds,
                keep=extent.kept,
                window_us=extent.window_us,
                timed=self._ground.timed(),
                budget_s=extent.budget_s,
                enough=extent.enough,
                fewest=extent.fewest,
                known=known,
            )

    def _set_floor(self, hearing: Hearing, mine: Turns) -> None:
        """Works out the physics floor only where moving every byte would take longer than the candidate did."""
        facts = self._environment.facts
        if mine.timing is None:
            return
        leaves, _ = self._reference.ask(self._case)
        most = sum(leaf.nbytes for leaf in leaves) + sum(item.own.nbytes for item in self._answer().wanted)
        floor = physics.floor_us(most, facts)
        if floor > mine.timing.median_us:
            most = physics.needed_bytes(self._reference.run, leaves)
            floor = physics.floor_us(most, facts)
        hearing.evidence = replace(hearing.evidence, floor_us=floor, floor_bytes=most, floor_disturbed=facts.disturbed)

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """For a clock: alone, and for kernels of one thread on processors that are awake. Several threads that wait for
        each other, a GPU's driver among them, would wait for the spinners' turns too."""
        single = self._device == "cpu" and (self._settings.session.threads or torch.get_num_threads()) == 1
        with self._gate.quiet(), awake() if single else nullcontext():
            yield

    def _measure_noise(self, session: Steps) -> Noise:
        """A/A: a baseline beside itself, by turns, as a candidate is timed beside it."""
        settings, found, disturbed = self._settings, [], False
        extent = Extent(settings.rounds, 0, settings.window_us, settings.submit_s / _AA_REPEATS)
        for _ in range(_AA_REPEATS):
            one, two = self._turns([session, session], extent)
            if one.timing and two.timing:
                found.append(ratio(one.timing.samples_us, two.timing.samples_us))
                disturbed |= one.short_of_time or one.disturbed + two.disturbed > len(found) * _FEW_DISTURBED
        return Noise(noise_floor(found), disturbed or not found, time.monotonic())


def median_us(turns: Turns) -> float:
    """Of a call; infinite where none was timed."""
    return turns.timing.median_us if turns.timing else float("inf")


def _comparison(baseline: Candidate, theirs: Turns, mine: Turns) -> Comparison:
    assert theirs.timing is not None and mine.timing is not None
    found = ratio(theirs.timing.samples_us, mine.timing.samples_us)
    return Comparison(baseline.title, baseline.digest, theirs.timing, found.value, found.low, found.high)
