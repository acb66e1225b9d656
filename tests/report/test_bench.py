"""Sums over a suite, and what may enter them."""

import math
from dataclasses import replace

import pytest

from kernelwright.records import Finding, Outcome, Stage, Status, Verdict
from kernelwright.report import BenchRow, Result, bench_row, summaries


def test_a_winner_becomes_a_row(outcome: Outcome) -> None:
    row = bench_row(outcome, "level3/43", "level 3")
    assert (row.result, row.writer, row.labels) == (Result.FASTER, "template add+norm grain=4", ("fixed shape",))
    assert row.over_best == outcome.best.verdict.best_baseline.speedup
    assert row.over_inductor == outcome.best.verdict.speedup("inductor").speedup and row.reason == ""


def test_a_row_names_the_baselines_and_their_times(outcome: Outcome) -> None:
    refused = replace(
        outcome.entries[1],
        candidate=replace(outcome.entries[1].candidate, writer="openvino", label="2026.4.1"),
        verdict=replace(
            outcome.entries[1].verdict,
            status=Status.UNSUPPORTED,
            findings=(Finding("runs", False, "no such operator"),),
            timing=None,
            comparisons=(),
        ),
    )
    row = bench_row(replace(outcome, entries=(*outcome.entries, refused)), "p", "l")
    assert row.best_baseline == "inductor max-autotune" and row.over_onnxruntime is None
    times = {item.title: item.median_us for item in row.baselines}
    assert list(times) == ["eager", "inductor default", "inductor max-autotune", "openvino 2026.4.1"]
    assert row.over_best == pytest.approx((times[row.best_baseline] or 0) / 1742.0, rel=0.05)
    assert (row.baselines[-1].status, row.baselines[-1].reason) == (Status.UNSUPPORTED, "no such operator")
    bare = bench_row(replace(outcome, best=None, reason="nothing beat eager"), "p", "l")
    assert len(bare.baselines) == 3 and bare.best_baseline == ""


def test_an_unconfirmed_claim_enters_no_table(outcome: Outcome) -> None:
    row = bench_row(replace(outcome, best=None, reason="time ran out before it was confirmed"), "p", "l")
    assert (row.result, row.over_best, row.writer) == (Result.ORIGINAL, None, "")


def test_a_slower_candidate_counts_against_us(outcome: Outcome) -> None:
    def slow(verdict: Verdict) -> Verdict:
        compared = tuple(replace(item, speedup=item.speedup / 4) for item in verdict.comparisons)
        return replace(verdict, comparisons=compared, stage=Stage.TIME)

    entries = tuple(replace(entry, verdict=slow(entry.verdict)) for entry in outcome.entries)
    row = bench_row(replace(outcome, best=None, entries=entries), "p", "l")
    assert row.result is Result.ORIGINAL and row.over_best is not None and row.over_best < 1
    assert summaries([row])[0].slower == 1


def test_nothing_passed_is_failed_and_nothing_possible_is_unsupported(fruitless: Outcome) -> None:
    assert bench_row(fruitless, "p", "l").result is Result.FAILED
    assert bench_row(replace(fruitless, entries=()), "p", "l").result is Result.FAILED
    impossible = replace(fruitless.entries[-1].verdict, status=Status.UNSUPPORTED)
    entries = (replace(fruitless.entries[-1], verdict=impossible),)
    assert bench_row(replace(fruitless, entries=entries), "p", "l").result is Result.UNSUPPORTED


def test_summaries_with_and_without(rows: tuple[BenchRow, ...]) -> None:
    found = {(item.level, item.kind): item for item in summaries(rows)}
    rest = "without algorithmic and degenerate"
    assert list(found) == [
        ("level 1", "all"),
        ("level 2", "all"),
        ("level 2", rest),
        ("all levels", "all"),
        ("all levels", rest),
    ]
    first = found["level 1", "all"]
    assert (first.problems, first.measured, first.slower, first.failed) == (5, 4, 1, 1)
    assert first.geomean_over_best == pytest.approx(math.prod([1.02, 1.92, 2.2, 0.83]) ** (1 / 4))
    assert first.geomean_over_onnxruntime == 1.02 and first.geomean_over_openvino is None
    assert first.median_over_best == pytest.approx((1.02 + 1.92) / 2)
    assert first.returned_over_best == pytest.approx(math.prod([1.02, 1.92, 2.2, 1, 1]) ** (1 / 5))
    second = found["level 2", rest]
    assert (second.problems, second.measured, second.unsupported) == (2, 1, 1)
    assert second.geomean_over_best == second.returned_over_best == pytest.approx(1.1)


def test_no_rows_no_sums() -> None:
    assert summaries(()) == ()
    (only,) = summaries([BenchRow("p", "l", Result.FAILED)])
    assert only.geomean_over_best is None and only.returned_over_best == 1.0
