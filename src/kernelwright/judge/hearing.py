"""One candidate before the judge: calls, evidence, findings."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache

import torch

from kernelwright.judge.budget import Allowance
from kernelwright.judge.cases import told
from kernelwright.judge.check import Check
from kernelwright.judge.clock import Turns
from kernelwright.judge.evidence import Call, Difference, Evidence, Output
from kernelwright.judge.examination import alike, examine
from kernelwright.judge.keeping import Kept
from kernelwright.judge.reference import Answer, Reference
from kernelwright.judge.session import Declared, Failure, Run, Steps
from kernelwright.judge.steps import Watched
from kernelwright.plugins import members
from kernelwright.records import Case, Finding, Status, Weight
from kernelwright.targets.surroundings import Change


class Rejected(Exception):
    """A gate failed; what is left need not be tried."""


@dataclass
class Hearing:
    """Runs cases through a started session and stops at the first gate that fails, keeping what was found."""

    reference: Reference
    session: Steps
    evidence: Evidence = field(default_factory=Evidence)
    prepare_us: float | None = None
    cases: tuple[Case, ...] = ()
    """Those that had an answer, in the order in which they were asked."""
    _loaded: Case | None = None

    def start(self) -> None:
        """Builds and prepares the candidate. Raises Rejected."""
        started = self.session.start()
        self.prepare_us = started.prepare_us
        self._stop_at(started.failure)

    def look(self, *, names: bool = True) -> None:
        """Asks what the candidate has changed for its whole process. Raises Rejected."""
        self._looked(self.session.changes(names=names))

    def _looked(self, found: tuple[Change, ...] | None) -> None:
        if found is not None:
            self.evidence = replace(self.evidence, looked=True, changes=found)
            self._judge(Evidence(baseline=self.evidence.baseline, looked=True, changes=found))

    def watched(self, found: Watched) -> None:
        """Takes in what the watched build told. Raises Rejected."""
        self.evidence = replace(self.evidence, watched=found)
        self._judge(Evidence(baseline=self.evidence.baseline, watched=found))

    def hear(self, case: Case, *, repeat: bool = False, keep: bool = True) -> None:
        """One verified call. Raises Rejected."""
        reloaded = self._load(case)
        if reloaded is None:
            return
        leaves, answer = self.reference.ask(case, keep=keep)
        if answer is None:
            return
        self.cases += (case,)
        run = self.session.run(leaves, answer.expected)
        if run.failure is not None:
            self._failed(case, run.failure)
            return
        call = replace(self._witnessed(run, answer, case), reloaded=reloaded or case.weights != "original")
        if repeat:
            again = self.session.run([leaf.clone() for leaf in leaves], answer.expected)
            self._stop_at(again.failure)
            call = replace(call, repeat_equal=_same(run.outputs, again.outputs))
            # The second answer is held to the same budget: a first call that computes and a second that does not.
            self._add(self._witnessed(again, answer, case))
        self._add(call)

    def _witnessed(self, run: Run, answer: Answer, case: Case) -> Call:
        """What is off in very few places is held to a budget that more runs of the oracle have told."""
        call = witnessed(run, answer, case)
        if any(output.difference and nearly(output.difference) for output in call.outputs):
            wider = self.reference.reconsider(case)
            return witnessed(run, wider, case) if wider else call
        return call

    def timed(self, turns: Turns, best: Turns | None) -> None:
        """Takes in what the clock measured and verifies the timed calls that were kept; meanwhile the child, whose last
        call it was, is asked what it has changed. Raises Rejected."""
        self._stop_at(turns.failure)
        self.evidence = replace(
            self.evidence,
            timing=turns.timing,
            timed_unwritten=turns.unwritten,
            timed_changed=turns.changed,
            charged_us=turns.charged_us,
            late_us=turns.late_us,
            late_calls=turns.copied,
            disturbed=turns.disturbed,
            short_of_time=turns.short_of_time,
            single_us=turns.single_us,
            baseline_us=best.timing.median_us if best and best.timing else None,
            baseline_single_us=best.single_us if best else None,
        )
        with ThreadPoolExecutor(1, "kernelwright-look") as beside:
            looked = beside.submit(self.session.changes)
            for kept in turns.kept:
                self._add(self._kept(kept))
            self._judge(self.evidence)
        self._looked(looked.result())

    def findings(self) -> tuple[Finding, ...]:
        """What every check says of all that was seen."""
        found = (check.find(self.evidence) for check in checks())
        return tuple(finding for finding in found if finding is not None)

    def _load(self, case: Case) -> bool | None:
        """Brings in the weights of `case` where others are loaded; whether it did. None: a baseline refused them."""
        wanted = None if case.weights == "original" else case
        if (wanted and (wanted.weights, wanted.seed)) == (self._loaded and (self._loaded.weights, self._loaded.seed)):
            return False
        loaded = self.session.load_weights(self.reference.weights(wanted))
        self._loaded = wanted
        if loaded.failure and self.evidence.baseline and wanted and self.session.lost is None:
            self._note_error(case, loaded.failure)
            return None
        self._stop_at(loaded.failure)
        return True

    def _note_error(self, case: Case, failure: Failure) -> None:
        call = Call(case, error=failure.message, reloaded=case.weights != "original")
        self.evidence = replace(self.evidence, calls=(*self.evidence.calls, call))

    def _failed(self, case: Case, failure: Failure) -> None:
        """A call that raised: an ending, but for layouts, which may be refused, and for what a stock tool's baseline
        was not compiled for: other sizes, other weights."""
        stock = self.evidence.baseline and (case.sizes or case.weights != "original")
        lenient = case.layout != "contiguous" or stock
        if lenient and self.session.lost is None and failure.status is Status.RUNTIME_ERROR:
            self._note_error(case, failure)
            return
        self._stop_at(Failure(failure.status, f"{failure.message} ({told(case)})"))

    def _stop_at(self, failure: Failure | None) -> None:
        if failure is not None:
            self.evidence = replace(self.evidence, failure=(failure.status, failure.message))
            raise Rejected

    def _add(self, call: Call) -> None:
        self.evidence = replace(self.evidence, calls=(*self.evidence.calls, call))
        self._judge(Evidence(baseline=self.evidence.baseline, calls=(call,)))

    def _judge(self, evidence: Evidence) -> None:
        for check in checks():
            finding = check.find(evidence)
            if finding is not None and not finding.ok and finding.weight is Weight.GATE:
                raise Rejected

    def _kept(self, kept: Kept) -> Call:
        case = Case("nominal", hidden=True)
        answer = self.reference.answer(kept.leaves, case)
        outputs = tuple(
            _output(result, None, wanted, False, False)
            for result, wanted in zip(kept.outputs, answer.wanted, strict=True)
        )
        nest = answer.expected.template
        return Call(case, outputs, nest, nest, timed=True)


@cache
def checks() -> tuple[Check, ...]:
    """All checks, those that explain most first: a wrong shape before the wrong values it brings."""
    found = [kind() for kind in members("judge.checks", "Check").values()]
    return tuple(
        sorted(found, key=lambda check: (_ORDER.index(check.name) if check.name in _ORDER else 99, check.name))
    )


_ORDER = (
    "runs",
    "surroundings",
    "kernel_faults",
    "shape",
    "dtype",
    "storage",
    "inputs_unchanged",
    "timed_outputs",
    "unwritten",
    "weights_followed",
)


def nearly(difference: Difference) -> bool:
    """Whether it may be right after all: it is off in very few places."""
    few = 0 < difference.wrong <= max(1, difference.count * _FEW)
    return few and not difference.lost and not difference.strange


_FEW = 1e-3


def witnessed(run: Run, answer: Answer, case: Case) -> Call:
    """A call that returned, compared with its answer."""
    expected = answer.expected
    outputs = []
    same_nest = run.template == expected.template
    for place, wanted in enumerate(answer.wanted):
        declared = run.declared[place] if same_nest and place < len(run.declared) else None
        result = run.outputs[place] if place < len(run.outputs) else None
        outputs.append(_output(result, declared, wanted, place in run.unwritten, answer.shares[place]))
    changed = tuple(leaf for leaf in run.changed if leaf not in answer.mutated)
    return Call(
        case,
        tuple(outputs) if same_nest else (),
        expected.template,
        run.template,
        inputs_changed=changed,
        guards=run.guards,
        informative=answer.informative,
    )


def _output(
    result: torch.Tensor | None, declared: Declared | None, wanted: Allowance, unwritten: bool, may_share: bool
) -> Output:
    own = wanted.own
    fits = result is not None and result.shape == own.shape and result.dtype is own.dtype
    shape, dtype = (tuple(own.shape), _name(own)) if fits else ((), "")
    if declared is not None:
        shape, dtype = declared.shape, declared.dtype
    return Output(
        expected_shape=tuple(own.shape),
        expected_dtype=_name(own),
        shape=shape,
        dtype=dtype,
        kind=declared.kind if declared else "Tensor",
        device=declared.device if declared else str(own.device),
        expected_device=str(own.device),
        shares=_shares(declared) if declared else "",
        may_share=may_share,
        readable=fits or (shape, dtype) != (tuple(own.shape), _name(own)),
        unwritten=unwritten,
        difference=examine(result, wanted) if fits and result is not None else None,
    )


def _shares(declared: Declared) -> str:
    if declared.input_alias is not None:
        return f"the memory of input {declared.input_alias}"
    if declared.state_alias is not None:
        return f"the memory of {declared.state_alias}"
    return f"the memory of output {declared.output_alias}" if declared.output_alias is not None else ""


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _same(first: Sequence[torch.Tensor | None], second: Sequence[torch.Tensor | None]) -> bool:
    return all(one is not None and two is not None and alike(one, two) for one, two in zip(first, second, strict=True))
