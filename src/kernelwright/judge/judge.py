"""Judges candidates for one problem on one device.

    with Judge(problem, "cpu") as judge:
        eager = judge.submit(baseline)      # Verdict
        judge.hold(baseline)                # what follows is timed beside it, by turns
        verdict = judge.submit(candidate)   # build, screen, verify, time
        verdict = judge.confirm(candidate)  # again, on fresh seeds, timed longer

A candidate's failure is a Verdict. What is raised is the caller's or our own fault.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

import torch

from kernelwright import targets
from kernelwright.errors import ProblemError, UsageError
from kernelwright.judge.beside import Beside, Extent, median_us
from kernelwright.judge.building import Building
from kernelwright.judge.cases import PROBES, Pool, total_bytes
from kernelwright.judge.clock import Turns
from kernelwright.judge.degenerate import Survey, Watch, conduct, remember, remembered
from kernelwright.judge.evidence import Evidence
from kernelwright.judge.gate import Gate
from kernelwright.judge.grounds import ground
from kernelwright.judge.hearing import Hearing, Rejected
from kernelwright.judge.noise import Noise
from kernelwright.judge.reference import Reference
from kernelwright.judge.session import NullSession, Session, Steps
from kernelwright.judge.settings import JUDGE_VERSION, Settings
from kernelwright.records import (
    Candidate,
    Case,
    Comparison,
    Environment,
    Finding,
    Problem,
    Stage,
    Status,
    Trial,
    Verdict,
    Weight,
)

_LEDGER_CALLS = 3
# Beyond inputs and weights in float32 the oracle holds them in float64, twice over, with all that lies between.
_MEMORY_FACTOR = 8


class Judge:
    """See the top of this file. Thread-safe: candidates are verified side by side and timed one after the other."""

    def __init__(
        self,
        problem: Problem,
        device: str,
        *,
        weights: Mapping[str, torch.Tensor] | None = None,
        settings: Settings = Settings(),
        gate: Gate | None = None,
    ) -> None:
        """`weights`: the user's state_dict; None: those the constructor makes under seed 0. Raises ProblemError if
        the reference cannot be built or run on its own inputs."""
        if problem.numerics.stochastic:
            raise ProblemError(f"{problem.name} draws random numbers itself, so no answer can be called right")
        self.problem, self.device, self.settings = problem, device, settings
        self.gate = gate or Gate()
        self.environment: Environment = targets.environment(device)
        self._native = targets.is_native(device)
        self._unsupported = _too_large(problem)
        self._ground = ground(device)
        room = max(settings.cache_bytes, round(settings.cache_share * self.environment.facts.memory_bytes))
        self._reference = Reference(problem, weights, room, settings.reference_s, device=self._ground.device)
        self._broker = Building(targets.LocalBroker(), self.gate)
        self._pool = Pool.draw(problem, settings.pool_seeds, weighted=not self._reference.weightless)
        self._turn = 0
        self._lock = threading.Lock()
        self._parked: dict[str, Steps] = {}
        self._own_weights = weights is None
        self._survey: Survey | None = None
        self._beside = Beside(
            self._reference,
            self._ground,
            self.gate,
            settings,
            self.environment,
            device=device,
            case=Case("nominal", self._pool.seeds[0], hidden=True),
        )
        self._heard: set[Steps] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all children and the compilations for them. What is under way on other threads raises. Idempotent."""
        self._broker.end()
        with self._lock:
            self._closed = True
            for session in self._heard:
                session.abort()
            sessions = [*self._parked.values(), *self._beside.let_go()]
            self._parked.clear()
        for session in sessions:
            session.close()

    def submit(self, candidate: Candidate) -> Verdict:
        """Builds, screens, verifies and times `candidate` beside all held baselines."""
        pooled = self._pool.plan(self._next_turn())
        plan = (*pooled, *self._pool.fresh(self.settings.fresh_cases))
        chosen = self.settings
        extent = Extent(
            chosen.rounds, chosen.kept_calls, chosen.window_us, chosen.submit_s, chosen.enough, chosen.fewest_rounds
        )
        return self._decide(candidate, plan, len(pooled), Stage.TIME, extent)

    def confirm(self, candidate: Candidate) -> Verdict:
        """All of `submit` again in a new child on seeds nobody has met, timed longer. Only its verdict may be called
        a speedup: the fastest of many is partly the luckiest."""
        pool = Pool.draw(self.problem, self.settings.pool_seeds, weighted=not self._reference.weightless)
        plan = pool.plan(0)
        chosen = self.settings
        extent = Extent(
            chosen.confirm_rounds,
            chosen.confirm_kept_calls,
            chosen.confirm_window_us,
            chosen.confirm_s,
            chosen.confirm_enough,
            chosen.fewest_confirm_rounds,
        )
        return self._decide(candidate, plan, 0, Stage.CONFIRM, extent)

    def again(self, candidate: Candidate, cases: Sequence[Case]) -> Verdict:
        """Builds and verifies `candidate` on just these cases, as an earlier verdict names them; nothing is timed."""
        return self._decide(candidate, cases, 0, Stage.VERIFY, None)

    def hold(self, candidate: Candidate) -> None:
        """Keeps a baseline that passed warm, so that later candidates are timed beside it."""
        if self._beside.holds(candidate):
            return
        with self._lock:
            session = self._parked.pop(candidate.digest, None)
        if session is None:
            session = self._session(candidate)
            with self.gate.busy():
                if session.start().failure is not None:
                    session.close()
                    return
        self._beside.hold(candidate, session)

    def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        """A cheap look at many variants: one case each, short timing by turns. Rejects and ranks, never accepts."""
        trials: list[Trial] = []
        standing: list[tuple[int, Steps]] = []
        with ExitStack() as stack:
            for candidate in candidates:
                hearing = Hearing(self._reference, self._session(candidate), Evidence(candidate.baseline))
                stack.callback(hearing.session.close)
                status, message = Status.PASSED, ""
                with self.gate.busy():
                    try:
                        self._refuse_unsupported(hearing)
                        hearing.start()
                        hearing.hear(case)
                    except Rejected:
                        status, message = _outcome(hearing.findings())
                if status is Status.PASSED:
                    standing.append((len(trials), hearing.session))
                trials.append(Trial(candidate.digest, case.digest, status, None, message))
            if standing and self._timed:
                turns = self._beside.trial([session for _, session in standing])
                for (place, _), turn in zip(standing, turns, strict=True):
                    trials[place] = _trial(trials[place], turn)
        self._refuse_closed()
        return tuple(trials)

    @property
    def noise_floor(self) -> float:
        """How far from 1 this machine finds a kernel from itself (0.03: three per cent). A speedup inside is no win.

        Measured with the first baseline that is held, and again after a minute. Only what a quiet machine showed
        counts and is kept in home(): where others disturb the clock, the remembered floor stands (2 % where there is
        none), and a comparison's own interval, which the disturbance widens, has to decide.
        """
        return self._beside.noise_floor if self._timed else Noise().remembered(self.environment.digest)

    @property
    def unrest(self) -> float:
        """What `noise_floor` measured last, disturbed or not: far above it, other work uses the machine. 0: nothing
        was measured yet."""
        return self._beside.unrest

    def survey(
        self,
        *,
        whole: bool = False,
        budget_s: float | None = None,
        watch: Watch | None = None,
    ) -> Survey:
        """Whether answers that look at nothing would pass; worked out once for a problem with its own weights, and kept
        in home(). `whole`: every case is asked, also where it is known already that none of them passes all. When
        `budget_s` is used up (None: the settings'), no case is begun beyond the nominal ones. `watch` hears of each
        case before it is asked: its number, how many there are, the case."""
        key = f"{self.problem.digest}-judge{JUDGE_VERSION}"
        if self._survey is None and self._own_weights:
            self._survey = remembered(key)
        if self._survey is None or (whole and self._survey.left_out):
            until = time.monotonic() + (self.settings.survey_s if budget_s is None else budget_s)
            ask = lambda case: self._reference.ask(case)[1]
            self._survey, final = conduct(self._pool.survey(), ask, whole=whole, until=until, watch=watch)
            if final and self._own_weights:
                remember(self._survey, key)
        return self._survey

    @property
    def _hosted(self) -> bool:
        """Whether a host stands in for a device: its kernels run natively fast here, and once under watch."""
        return not self._native and self.device != "null"

    @property
    def _timed(self) -> bool:
        return self.settings.time and self._native and self.device != "metal"  # the clock is for the CPU's memory

    def _next_turn(self) -> int:
        """Which of the pool's seeds a candidate meets: not those of the one before. Where one answer takes long, a
        pool of them would use up a search's budget, and all meet the same hidden cases, beside those drawn anew."""
        if not self._unsupported:
            with self.gate.busy():
                self._reference.ask(Case("nominal", self._pool.seeds[0], hidden=True))
        with self._lock:
            self._turn += 1
            return 0 if self._reference.slow else self._turn

    def _session(self, candidate: Candidate) -> Steps:
        kind: Callable[..., Steps] = NullSession if self.device == "null" else Session
        session = kind(
            self.problem,
            candidate,
            weights=self._reference.weights(),
            broker=self._broker,
            settings=self.settings.session,
            ground=self._ground,
        )
        with self._lock:
            self._refuse_closed()
            self._heard = {item for item in self._heard if item.lost is None} | {session}
        return session

    def _refuse_closed(self) -> None:
        """What a child answered that was ended with the judge is no verdict about its candidate."""
        if self._closed:
            raise UsageError("the judge was closed while a candidate was before it")

    def _refuse_unsupported(self, hearing: Hearing) -> None:
        candidate = hearing.session.candidate
        message = self._unsupported
        if candidate.target.rpartition("@")[2] != self.device:
            message = f"the candidate is for {candidate.target}, this judge is for {self.device}"
        if message:
            hearing.evidence = replace(hearing.evidence, failure=(Status.UNSUPPORTED, message))
            raise Rejected

    def _decide(
        self, candidate: Candidate, plan: Sequence[Case], pooled: int, goal: Stage, extent: Extent | None
    ) -> Verdict:
        began = time.monotonic()
        if self.device == "null" or self.problem.gradients:
            # Nothing is proven there, and its session compares inputs by value, which NaN never equals. Of a gradient
            # torch itself says nothing at NaN: ReLU's passes it on or not, as the formula happens to be written.
            plan = [case for case in plan if case.family not in PROBES]
        hearing = Hearing(self._reference, self._session(candidate), Evidence(candidate.baseline))
        try:
            return self._heard_out(hearing, plan, pooled, goal, extent, began)
        except BaseException:  # our own fault, or the caller's: no child stays behind, and no memory of a GPU's
            hearing.session.close()
            raise

    def _heard_out(
        self,
        hearing: Hearing,
        plan: Sequence[Case],
        pooled: int,
        goal: Stage,
        extent: Extent | None,
        began: float,
    ) -> Verdict:
        candidate, stage, comparisons = hearing.session.candidate, Stage.BUILD, ()
        try:
            with self.gate.busy():
                self._refuse_unsupported(hearing)
                if self.settings.survey:
                    found = self.survey()
                    hearing.evidence = replace(hearing.evidence, survey=found.sentence, degenerate=found.degenerate)
                hearing.start()
                hearing.look(names=False)  # a setting could make all that follows faster; the rest is seen at the end
                if self._hosted:
                    stage = Stage.SCREEN
                    self._watch(hearing, plan[0])
                for place, case in enumerate(plan):
                    stage = Stage.SCREEN if place == 0 else Stage.VERIFY
                    hearing.hear(case, repeat=place == 0, keep=place < pooled)
            if self._timed and extent is not None:
                stage = goal
                comparisons = self._beside.time(hearing, extent)
            else:
                with self.gate.busy():
                    hearing.look()
            if stage is Stage.CONFIRM or self._hosted:
                self._beside.look(hearing)
                with self.gate.busy():
                    told = hearing.session.ledger(self._beside.inputs()(_LEDGER_CALLS))
                hearing.evidence = replace(hearing.evidence, kernels=told)
        except Rejected:
            with suppress(Rejected):
                hearing.look()  # what it has changed may be why
        if self._closed:
            hearing.session.close()
            self._refuse_closed()
        hearing.evidence = replace(hearing.evidence, oracle_note=self._reference.note)
        verdict = self._verdict(hearing, stage, comparisons, began)
        if candidate.baseline and verdict.status is Status.PASSED and hearing.session.lost is None:
            with self._lock:
                self._refuse_closed()
                old = self._parked.pop(candidate.digest, None)
                self._parked[candidate.digest] = hearing.session
            if old is not None:
                old.close()
        else:
            hearing.session.close()
        return verdict

    def _watch(self, hearing: Hearing, case: Case) -> None:
        """One case on the watched build of hosted kernels, in a child of its own: it may take long, or end it."""
        leaves, answer = self._reference.ask(case)
        if answer is None:
            return
        session = self._session(hearing.session.candidate)
        try:
            if session.start().failure is None:
                hearing.watched(session.watch(leaves, self.settings.chip))
        finally:
            session.close()

    def _verdict(self, hearing: Hearing, stage: Stage, comparisons: tuple[Comparison, ...], began: float) -> Verdict:
        findings = hearing.findings()
        status, _ = _outcome(findings)
        passed = status is Status.PASSED
        labels = []
        if self.problem.gradients:
            labels.append("forward and backward")
        if not self.problem.dynamic:
            labels.append("fixed shape")
        if hearing.evidence.degenerate:
            labels.append("degenerate problem")
        if hearing.session.candidate.algorithmic:
            labels.append("algorithmic")
        return Verdict(
            candidate=hearing.session.candidate.digest,
            problem=self.problem.digest,
            target=hearing.session.candidate.target,
            status=status,
            stage=stage,
            environment=self.environment,
            findings=findings,
            timing=hearing.evidence.timing if passed and self._native else None,
            prepare_us=hearing.prepare_us,
            comparisons=comparisons if passed else (),
            ledger=hearing.evidence.kernels,
            peak_memory_bytes=hearing.session.peak_memory_bytes,
            native=self._native,
            labels=tuple(labels),
            cases=hearing.cases,
            judge=JUDGE_VERSION,
            decided_at=time.time(),
            cost_s=time.monotonic() - began,
            log=hearing.session.log,
        )


def _outcome(findings: Sequence[Finding]) -> tuple[Status, str]:
    failed = [item for item in findings if not item.ok and item.weight is Weight.GATE]
    return (failed[0].status, failed[0].message) if failed else (Status.PASSED, "")


def _trial(trial: Trial, turns: Turns) -> Trial:
    if turns.failure is not None:
        return replace(trial, status=turns.failure.status, message=turns.failure.message)
    return replace(trial, median_us=median_us(turns)) if turns.timing else trial


def _too_large(problem: Problem) -> str:
    """Why the problem cannot be judged on this machine; empty where it can."""
    shapes = [(spec.example_shape, getattr(torch, spec.dtype).itemsize) for spec in problem.signature.tensors]
    needed = total_bytes(shapes) * _MEMORY_FACTOR
    with suppress(ValueError, OSError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > 0.8 * memory:
            return (
                f"judging needs about {needed / 1e9:.0f} GB for inputs of {needed / _MEMORY_FACTOR / 1e9:.0f} GB, "
                f"and this machine has {memory / 1e9:.0f}; scale the problem down"
            )
    return ""
