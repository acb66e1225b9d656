"""What each of a swarm achieved, and all of them together."""

from rich.console import Console

from kernelwright.records import (
    Call,
    Candidate,
    Comparison,
    Environment,
    Facts,
    Finding,
    SourceFile,
    Stage,
    Status,
    Timing,
    Verdict,
    Weight,
)
from kernelwright.report.swarm import (
    Ledger,
    attempts_of,
    ledger,
    ledger_json,
    ledger_sentence,
    ledger_table,
)

HERE = Environment(Facts("cpu", "", ""), "", "", "", 1)
HELD: dict[str, Candidate] = {}


def verdict(writer: str, problem: str, speedup: float, stage: Stage = Stage.TIME, bar: bool = False) -> Verdict:
    """A speedup of 0 is wrong."""
    candidate = Candidate(writer, "cpp@cpu", (SourceFile("model.py", f"{writer} {problem} {speedup}"),))
    HELD[candidate.digest] = candidate
    right = speedup > 0
    return Verdict(
        candidate.digest,
        problem,
        "cpp@cpu",
        Status.PASSED if right else Status.WRONG_VALUES,
        stage,
        HERE,
        (Finding("nan", False, "NaN is lost", Weight.BAR),) if bar else (),
        Timing((10.0,), "") if right else None,
        comparisons=(Comparison("eager", "d", Timing((10.0 * speedup,), ""), speedup, speedup, speedup),)
        if right
        else (),
    )


def found(*verdicts: Verdict, calls: tuple[Call, ...] = ()) -> Ledger:
    return ledger(attempts_of(verdicts, verdicts, HELD), calls, depth=3)


def test_together_is_better_than_the_best_alone() -> None:
    told = found(
        verdict("m:a", "p1", 4.0),
        verdict("m:a", "p2", 0.0),
        verdict("m:a", "p2", 1.0),
        verdict("m:b", "p1", 0.5),
        verdict("m:b", "p2", 0.0),
        verdict("m:b", "p2", -1.0),
        verdict("m:b", "p2", 9.0),
        verdict("template", "p1", 100.0),
    )
    a, b = sorted(told.members, key=lambda row: row.name)
    assert (a.problems, a.attempts, a.correct_at, a.fast) == (2, 3, (0.5, 1.0, 1.0), (0.5, 0.5, 0.5))
    assert b.correct_at == (0.5, 0.5, 1.0) and abs(a.returned - 2.0) < 1e-9 and abs(b.returned - 3.0) < 1e-9
    assert (
        (told.shared, told.best_single) == (2, "m:b") and abs(told.single - 3.0) < 1e-9 and abs(told.swarm - 6.0) < 1e-9
    )
    assert "together 6.00x, the best alone (m:b) 3.00x: +100%" in ledger_sentence(told)


def test_what_cannot_win_counts_as_right_and_not_as_fast() -> None:
    (row,) = found(verdict("m:a", "p1", 5.0, bar=True), verdict("m:a", "p2", 2.5, Stage.CONFIRM)).members
    assert row.correct_at[0] == 1.0 and row.fast == (0.5, 0.5, 0.5) and row.confirmed == 1


def test_calls_and_cost_also_of_one_that_never_wrote_a_candidate() -> None:
    call = Call("m:b", 1, "write/1", "", "", "refusal", 100, 10, 0, True, 0.5, 3.0, 0.0, 0, "", 0.0)
    told = found(verdict("m:a", "p1", 2.0), calls=(call, call))
    row = next(row for row in told.members if row.name == "m:b")
    assert (row.problems, row.calls, row.tokens, row.cost_usd, row.seconds) == (0, 2, 220, 1.0, 6.0)
    assert told.best_single == "m:a" and ledger_json(told)["members"][0]["cost_usd"] is None
    console = Console(record=True, width=140)
    console.print(ledger_table(told))
    text = console.export_text()
    assert "$1.00" in text and "220" in text and "@3" in text


def test_nothing_is_compared_where_nothing_is_shared() -> None:
    assert "cannot be compared" in ledger_sentence(found(verdict("m:a", "p1", 2.0), verdict("m:b", "p2", 2.0)))
    assert found().members == () and "cannot be compared" in ledger_sentence(found())
