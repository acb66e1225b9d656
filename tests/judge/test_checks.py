"""Checks are pure: evidence in, finding out."""

from dataclasses import replace

import pytest

from kernelwright.judge.evidence import Call, Difference, Evidence, Output
from kernelwright.judge.hearing import checks
from kernelwright.judge.neighbours import Neighbours
from kernelwright.judge.steps import Failure, Watched
from kernelwright.plugins import find, members
from kernelwright.records import Case, Status, Timing, Weight
from kernelwright.targets.surroundings import Change

RIGHT = Output((4, 3), "float32", (4, 3), "float32", difference=Difference(12, worst=0.25))
OFF = replace(RIGHT, difference=Difference(12, 5, 0, 0, 0, (2, 1), 1.0, 1.5, 0.001, 500.0))
LOST = replace(RIGHT, difference=Difference(12, 2, 2, 0, 0, (0, 1), float("nan"), 0.0, 0.001, 0.1))
NEST = '{"tensor": 0}'
SECRET = 987654321


def call(output=RIGHT, family="nominal", **more):
    case = more.pop("case", Case(family, SECRET, hidden=True))
    return Call(case, (output,), NEST, more.pop("nest", NEST), **more)


def evidence(*calls, **more):
    return Evidence(calls=calls, **more)


def timing(*samples):
    return Timing(samples or (100.0, 101.0, 99.0), "slope")


THREADS = Change("torch.get_num_threads() was 1 and is 4", True)
FILTERS = Change("the warning filters changed", False)

LATE = Failure(Status.TIMEOUT, "took too long")

FAILS = [
    (
        "neighbours",
        evidence(neighbours=Neighbours(1.8, 1.6, 2.0, 0.02, 300.0)),
        Weight.INFORM,
        Status.WRONG_VALUES,
    ),
    ("quiet_clock", evidence(timing=timing(), disturbed=2), Weight.INFORM, Status.WRONG_VALUES),
    ("quiet_clock", evidence(timing=timing(), short_of_time=True), Weight.INFORM, Status.WRONG_VALUES),
    ("weights_followed", evidence(call(reloaded=True, error="no"), baseline=True), Weight.BAR, Status.RUNTIME_ERROR),
    ("weights_followed", evidence(call(OFF, reloaded=True), baseline=True), Weight.BAR, Status.WRONG_VALUES),
    ("runs", evidence(failure=(Status.TIMEOUT, "took too long")), Weight.GATE, Status.TIMEOUT),
    ("shape", evidence(call(replace(RIGHT, shape=(3, 4), difference=None))), Weight.GATE, Status.WRONG_SHAPE),
    ("shape", evidence(call(nest='[{"tensor": 0}]')), Weight.GATE, Status.WRONG_SHAPE),
    ("dtype", evidence(call(replace(RIGHT, dtype="float16"))), Weight.GATE, Status.WRONG_DTYPE),
    ("storage", evidence(call(replace(RIGHT, shares="the memory of input 0"))), Weight.GATE, Status.CHEATED),
    ("storage", evidence(call(replace(RIGHT, kind="Lazy"))), Weight.GATE, Status.CHEATED),
    ("storage", evidence(call(guards=False)), Weight.GATE, Status.CHEATED),
    ("unwritten", evidence(call(replace(RIGHT, unwritten=True))), Weight.GATE, Status.CHEATED),
    ("unwritten", evidence(call(), timed_unwritten=2), Weight.GATE, Status.CHEATED),
    ("values", evidence(call(OFF)), Weight.GATE, Status.WRONG_VALUES),
    ("values", evidence(call(OFF, case=Case(layout="offset")), baseline=True), Weight.BAR, Status.WRONG_VALUES),
    ("values", evidence(call(LOST, "constant")), Weight.GATE, Status.WRONG_VALUES),
    ("nan_probe", evidence(call(LOST, "nan_probe")), Weight.GATE, Status.WRONG_VALUES),
    ("nan_probe", evidence(call(LOST, "nan_probe"), baseline=True), Weight.BAR, Status.WRONG_VALUES),
    ("inf_probe", evidence(call(OFF, "inf_probe")), Weight.GATE, Status.WRONG_VALUES),
    ("inf_probe", evidence(call(LOST, "inf_probe")), Weight.INFORM, Status.WRONG_VALUES),
    ("weights_followed", evidence(call(OFF, reloaded=True)), Weight.GATE, Status.WRONG_VALUES),
    ("inputs_unchanged", evidence(call(inputs_changed=(1,))), Weight.GATE, Status.CHEATED),
    ("inputs_unchanged", evidence(call(), timed_changed=1), Weight.GATE, Status.CHEATED),
    ("repeat", evidence(call(repeat_equal=False)), Weight.INFORM, Status.WRONG_VALUES),
    ("timed_outputs", evidence(call(OFF, timed=True)), Weight.GATE, Status.CHEATED),
    ("late_work", evidence(timing=timing(), charged_us=60.0), Weight.INFORM, Status.WRONG_VALUES),
    ("late_work", evidence(timing=timing(), charged_us=300.0, late_us=2400.0), Weight.GATE, Status.CHEATED),
    ("super_batch", evidence(timing=timing(5.0, 5.1, 4.9), single_us=400.0), Weight.INFORM, Status.CHEATED),
    ("physics", evidence(timing=timing(1.0, 2.0), single_us=3.0, floor_us=50.0), Weight.GATE, Status.CHEATED),
    ("oracle", evidence(call(), oracle_note="the oracle ran in float32"), Weight.INFORM, Status.WRONG_VALUES),
    ("layouts", evidence(Call(Case(layout="strided"), error="no")), Weight.INFORM, Status.WRONG_VALUES),
    ("surroundings", evidence(looked=True, changes=(THREADS, FILTERS)), Weight.GATE, Status.CHEATED),
    ("surroundings", evidence(looked=True, changes=(THREADS,), baseline=True), Weight.INFORM, Status.CHEATED),
    ("surroundings", evidence(looked=True, changes=(FILTERS,)), Weight.INFORM, Status.WRONG_VALUES),
    ("kernel_faults", evidence(watched=Watched(None, 1, ("a race",))), Weight.GATE, Status.RUNTIME_ERROR),
    ("kernel_faults", evidence(watched=Watched(None, 1, (), ("no fence",))), Weight.INFORM, Status.RUNTIME_ERROR),
    ("kernel_faults", evidence(watched=Watched(LATE)), Weight.INFORM, Status.RUNTIME_ERROR),
    ("degenerate", evidence(survey="zeros pass", degenerate=True), Weight.INFORM, Status.WRONG_VALUES),
]  # fmt: skip

STANDS = [
    ("kernel_faults", evidence(watched=Watched(None, 2))),
    ("estimate", evidence(watched=Watched(None, 2, chip="M2", estimate_us=3.0))),
    ("surroundings", evidence(looked=True)),
    ("storage", evidence(call(replace(RIGHT, shares="the memory of input 0", may_share=True)))),
    ("values", evidence(call(OFF, "constant"))),
    ("values", evidence(call(OFF, informative=False))),
    ("super_batch", evidence(timing=timing(5.0, 5.1), single_us=60.0)),
    ("super_batch", evidence(timing=timing(5.0), single_us=400.0, baseline_us=10.0, baseline_single_us=390.0)),
    ("neighbours", evidence(neighbours=Neighbours(1.8, 1.0, 2.0, 0.02, 300.0))),
    ("neighbours", evidence(neighbours=Neighbours(1.8, 1.6, 2.0, 0.7, 300.0))),
    ("physics", evidence(timing=timing(0.0, 0.0), single_us=80.0, floor_us=50.0)),
    ("physics", evidence(timing=timing(0.0, 90.0), floor_us=50.0)),
]


@pytest.mark.parametrize(("name", "seen", "weight", "status"), FAILS)
def test_finds(name, seen, weight, status):
    found = find("judge.checks", "Check", name)().find(seen)
    assert found is not None and not found.ok
    assert (found.check, found.weight, found.status) == (name, weight, status)
    assert found.message and str(SECRET) not in found.message


@pytest.mark.parametrize(("name", "seen"), STANDS)
def test_lets_stand(name, seen):
    found = find("judge.checks", "Check", name)().find(seen)
    assert found is not None and found.ok


@pytest.mark.parametrize("check", checks(), ids=lambda check: check.name)
def test_says_nothing_of_what_it_did_not_see_and_is_listed_with_a_sentence(check):
    assert check.find(Evidence()) is None
    assert check.principle in "ABCDEFGHIJ"
    assert (type(check).__doc__ or "").strip()


def test_all_are_found():
    assert {name for name, *_ in FAILS} | {"estimate", "ledger"} == set(members("judge.checks", "Check"))


def test_a_message_says_which_output_where_and_how_far():
    message = find("judge.checks", "Check", "values")().find(evidence(call(OFF))).message
    for part in ("output 0", "float32 [4, 3]", "[2, 1]", "1.5", "expected 1", "off by 0.5", "allowed 0.001", "5 of 12"):
        assert part in message
