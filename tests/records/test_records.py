"""Records: content addresses, JSON there and back, and the states that cannot be built."""

import gc
import json
import weakref

import pytest

from kernelwright.records import (
    Candidate,
    Case,
    Comparison,
    Environment,
    Facts,
    Finding,
    Numerics,
    Problem,
    Range,
    Region,
    RegionInput,
    Signature,
    SourceFile,
    Stage,
    Status,
    TensorSpec,
    Timing,
    Verdict,
    Weight,
    decode,
    digest,
    encode,
    flatten,
    strict,
    unflatten,
)

ENVIRONMENT = Environment(Facts("cpu", "a chip", "x86_64", ("avx2",), 2), "Linux", "3.11", "2.13.0", 2)
SIGNATURE = Signature(
    (TensorSpec("x", "float32", (Range(1, 8, 4), 512)), TensorSpec("n", "int64", (3,), low=0, high=9)),
    '{"dict": {"args": [{"tensor": 0}, {"tensor": 1}], "kwargs": {"dict": {}}}}',
)
PROBLEM = Problem(
    "a",
    "class Model: ...",
    SIGNATURE,
    Numerics(),
    Region("n0", "d0", (RegionInput("argument", "0"),)),
    import_paths=("/x",),
)


def verdict(**changes) -> Verdict:
    fields = {
        "candidate": "c",
        "problem": "p",
        "target": "cpp@cpu",
        "status": Status.PASSED,
        "stage": Stage.TIME,
        "environment": ENVIRONMENT,
        "timing": Timing((3.0, 1.0, 2.0), "slope"),
        "comparisons": (Comparison("eager", "e", Timing((4.0,), "slope"), 2.0, 1.9, 2.1),),
        "findings": (Finding("values", True, "ok", numbers=(("max_abs", 0.5),)),),
    }
    return Verdict(**{**fields, **changes})


@pytest.mark.parametrize(
    "record",
    [
        ENVIRONMENT,
        SIGNATURE,
        PROBLEM,
        Case("signed", 7, (3,), True),
        verdict(),
        Candidate("w", "t", (SourceFile("a", "b"),)),
    ],
    ids=lambda record: type(record).__name__,
)
def test_json_there_and_back(record) -> None:
    again = decode(type(record), json.loads(json.dumps(encode(record))))
    assert again == record
    assert digest(again) == digest(record)


def test_candidate_digest_names_content_only() -> None:
    base = Candidate("w", "t", (SourceFile("a", "b"),))
    assert base.digest == Candidate("other", "t", (SourceFile("a", "b"),), note="n", label="l").digest
    assert base.digest != Candidate("w", "t", (SourceFile("a", "c"),)).digest


def test_problem_digest_ignores_where_it_was_found() -> None:
    moved = Problem(
        PROBLEM.name, PROBLEM.source, PROBLEM.signature, import_paths=("/elsewhere",), origin="else", weights="ff"
    )
    assert moved.digest == PROBLEM.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"status": Status.WRONG_VALUES},
        {"native": False},
        {"findings": (Finding("values", False, "off"),)},
    ],
    ids=["failed with a timing", "hosted with a timing", "passed with a failed gate"],
)
def test_illegal_verdicts_cannot_be_built(changes) -> None:
    with pytest.raises(ValueError):
        verdict(**changes)


def test_a_barred_verdict_is_not_confirmed() -> None:
    barred = Finding("nan_probe", False, "NaN lost", Weight.BAR)
    assert verdict(stage=Stage.CONFIRM).confirmed
    assert not verdict(stage=Stage.CONFIRM, findings=(barred,)).confirmed


def test_timing_quantiles() -> None:
    timing = Timing((4.0, 1.0, 3.0, 2.0), "slope")
    assert timing.median_us == 2.5
    assert timing.quantile_us(0.0) == 1.0 and timing.quantile_us(1.0) == 4.0
    with pytest.raises(ValueError):
        Timing((), "slope")


def test_nest_there_and_back() -> None:
    value = {"args": [b"x", (b"y", 2, None), {"k": [b"z", 1.5, "s", True]}], "kwargs": {}}
    leaves, template = flatten(value, lambda item: isinstance(item, bytes))
    assert leaves == [b"x", b"y", b"z"]
    assert unflatten(template, leaves) == value


def test_a_nest_lets_its_leaves_go_at_once() -> None:
    class Leaf:
        pass

    leaf = Leaf()
    gone = weakref.ref(leaf)
    gc.disable()
    try:
        unflatten(*reversed(flatten([leaf, {"k": (leaf,)}], lambda item: isinstance(item, Leaf))))
        del leaf
        assert gone() is None
    finally:
        gc.enable()


def test_nest_names_what_cannot_cross() -> None:
    with pytest.raises(TypeError, match=r"\['a'\]\[1\] is a set"):
        flatten({"a": [1, {2}]}, lambda item: False)


def test_json_that_every_reader_takes_has_null_for_what_is_no_number() -> None:
    assert strict({"a": [1.5, float("nan"), float("-inf")], "b": {"c": "nan"}}) == {
        "a": [1.5, None, None],
        "b": {"c": "nan"},
    }
