from dataclasses import replace

import pytest

from kernelwright.errors import UnknownNameError
from kernelwright.records import (
    Candidate,
    Comparison,
    Entry,
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
from kernelwright.search import select
from kernelwright.writers import Standing

HERE = Environment(Facts("null", "null", "null"), system="", python="", torch="", threads=1)


def candidate(name: str, baseline: bool = False) -> Candidate:
    return Candidate(name, "null@null", (SourceFile("model.py", name),), baseline=baseline)


def entry(
    name: str,
    median_us: float | None,
    beside: tuple[tuple[Candidate, float], ...] = (),
    *,
    baseline: bool = False,
    stage: Stage = Stage.TIME,
    findings: tuple[Finding, ...] = (),
    decided_at: float = 0.0,
) -> Entry:
    """An entry timed at `median_us` beside baselines at their own medians, with 1 % of uncertainty."""
    proposed = candidate(name, baseline)
    comparisons = tuple(
        Comparison(
            other.title, other.digest, Timing((us,), ""), us / median_us, us / median_us * 0.99, us / median_us * 1.01
        )
        for other, us in beside
        if median_us
    )
    return Entry(
        proposed,
        Verdict(
            proposed.digest,
            "p",
            "null@null",
            Status.PASSED if median_us else Status.WRONG_VALUES,
            stage,
            HERE,
            findings,
            Timing((median_us,), "") if median_us else None,
            comparisons=comparisons,
            decided_at=decided_at,
        ),
    )


EAGER = candidate("eager", baseline=True)
INDUCTOR = candidate("inductor", baseline=True)


def test_a_challenger_beats_the_best_baseline_beyond_the_noise() -> None:
    entries = [
        entry("eager", 100, baseline=True),
        entry("inductor", 80, ((EAGER, 100),), baseline=True),
        entry("clear", 40, ((EAGER, 100), (INDUCTOR, 80))),
        entry("close", 79, ((EAGER, 100), (INDUCTOR, 80))),
        entry("between", 90, ((EAGER, 100), (INDUCTOR, 80))),
        entry("wrong", None),
    ]
    assert [e.candidate.writer for e in select.baselines(entries)] == ["inductor", "eager"]
    assert [e.candidate.writer for e in select.challengers(entries, 0.02)] == ["clear"]
    assert [e.candidate.writer for e in select.ranked(entries)] == ["clear", "close", "between"]


def test_a_challenger_need_not_be_sure_yet() -> None:
    eager, quick = entry("eager", 100, baseline=True), entry("quick", 50, ((EAGER, 100),))
    (beside,) = quick.verdict.comparisons
    unsure = replace(quick, verdict=replace(quick.verdict, comparisons=(replace(beside, low=0.7, high=2.4),)))
    assert select.challengers([eager, unsure], 0.02) == (unsure,)
    assert not select.wins(replace(unsure.verdict, stage=Stage.CONFIRM), 0.02)


def test_a_baseline_that_came_later_is_reached_through_one_both_knew() -> None:
    late = entry("inductor", 200, ((EAGER, 400),), baseline=True)  # timed while the machine was four times slower
    early = entry("early", 60, ((EAGER, 100),))
    speedup, low = select.lead(early.verdict, [entry("eager", 100, baseline=True), late])
    assert abs(speedup - 100 / 60 / 2) < 1e-9
    assert low < speedup
    assert not select.challengers([entry("eager", 100, baseline=True), late, early], 0.02)


def test_a_barred_candidate_challenges_nobody() -> None:
    bar = Finding("nan", False, "NaN is lost", Weight.BAR)
    entries = [entry("eager", 100, baseline=True), entry("loose", 10, ((EAGER, 100),), findings=(bar,))]
    assert select.challengers(entries, 0.02) == ()


def test_a_win_needs_every_baseline_and_the_confirmation() -> None:
    both = ((EAGER, 100.0), (INDUCTOR, 80.0))
    assert select.wins(entry("a", 50, both, stage=Stage.CONFIRM).verdict, 0.02)
    assert not select.wins(entry("a", 50, both, stage=Stage.TIME).verdict, 0.02)
    assert not select.wins(entry("a", 90, both, stage=Stage.CONFIRM).verdict, 0.02)
    assert not select.wins(entry("a", 50, stage=Stage.CONFIRM).verdict, 0.02)


def test_parents_are_the_fastest_then_the_newest_failures() -> None:
    entries = [entry("eager", 1, baseline=True)]
    entries += [entry(f"p{i}", 10 + i) for i in range(8)]
    entries += [entry(f"f{i}", None, decided_at=i) for i in range(8)]
    names = [parent.candidate.writer for parent in select.parents(entries, limit=6)]
    assert names == ["p0", "p1", "p2", "f7", "f6", "f5"]
    assert [p.candidate.writer for p in select.parents(entries[:3], limit=6)] == ["p0", "p1"]


def standing(strategy: str, turns: dict[str, int], idle: str = "abc", **more: int) -> Standing:
    return Standing(strategy, tuple(turns.items()), frozenset(idle), **more)  # type: ignore[arg-type]


def chosen(asked: Standing, *entries: Entry) -> tuple[str, str, list[str], str | None]:
    found = select.turn(asked, entries)
    assert found is not None
    shown = [parent.candidate.writer for parent in found.parents]
    return found.member, found.kind, shown, found.own and found.own.candidate.writer


def test_a_swarm_ends_when_its_turns_are_up() -> None:
    assert select.turn(standing("islands", {"a": 5, "b": 4}, idle="a"), []) is None
    assert select.turn(standing("islands", {"a": 5, "b": 4}, idle="ab"), []) is not None
    assert select.turn(standing("best-of-swarm", {"a": 6}, crossings=1), []) is None
    with pytest.raises(UnknownNameError, match="did you mean islands"):
        select.turn(standing("island", {"a": 0}), [])


def test_whoever_has_had_the_fewest_turns_goes_first() -> None:
    assert chosen(standing("best-of-swarm", {"a": 1, "b": 0, "c": 1}))[0] == "b"
    assert chosen(standing("best-of-swarm", {"a": 1, "b": 0, "c": 1}, idle="ac"))[0] == "a"


def test_best_of_swarm_is_alone_until_it_crosses() -> None:
    entries = (
        entry("eager", 100, baseline=True),
        entry("a", 50),
        entry("b", 20),
        entry("template", 30),
        entry("a", None),
    )
    assert chosen(standing("best-of-swarm", {"a": 2}, idle="a"), *entries) == ("a", "revise", ["a", "a"], "a")
    assert chosen(standing("best-of-swarm", {"c": 2}, idle="c"), *entries) == ("c", "write", [], None)
    assert chosen(standing("best-of-swarm", {"a": 5}, idle="a"), *entries) == (
        "a",
        "cross",
        ["b", "template", "a"],
        None,
    )


def test_refine_best_starts_from_the_best_of_all() -> None:
    entries = (entry("eager", 100, baseline=True), entry("a", 50), entry("b", 20))
    assert chosen(standing("refine-best", {"a": 0}, idle="a"), *entries)[1:] == ("revise", ["a"], "a")
    assert chosen(standing("refine-best", {"a": 1}, idle="a"), *entries)[1:] == ("cross", ["b", "a"], None)
    assert chosen(standing("refine-best", {"b": 1}, idle="b"), *entries)[1:] == ("revise", ["b"], "b")
    nothing = (entry("eager", 100, baseline=True), entry("a", None), entry("b", None))
    assert chosen(standing("refine-best", {"a": 1}, idle="a"), *nothing)[1:] == ("revise", ["a"], "a")


def test_islands_look_over_the_sea_every_third_turn() -> None:
    entries = (entry("eager", 100, baseline=True), entry("a", 50), entry("b", 20), entry("c", 40))
    turns = {"a": 1, "b": 1, "c": 1}
    assert chosen(standing("islands", turns, idle="a"), *entries)[1:] == ("cross", ["c", "a"], None), (
        "a and c: an island"
    )
    assert chosen(standing("islands", turns, idle="b"), *entries)[1:] == ("revise", ["b"], "b")
    assert chosen(standing("islands", {**turns, "a": 2}, idle="a"), *entries)[1:] == ("cross", ["b", "c", "a"], None)


def test_hosted_passes_are_parents_too() -> None:
    hosted = [replace(item, verdict=replace(item.verdict, timing=None, native=False, comparisons=(), decided_at=at))
              for at, item in enumerate([entry("a", 50), entry("b", 40)])]  # fmt: skip
    assert [parent.candidate.writer for parent in select.parents([*hosted, entry("c", None)])] == ["b", "a", "c"]
    assert chosen(standing("refine-best", {"a": 1}, idle="a"), *hosted)[1:] == ("cross", ["b", "a"], None)


def test_estimates_stand_in_order_and_only_where_there_are_any() -> None:
    def told(name: str, estimate_us: float | None) -> Entry:
        numbers = (("estimate_us", estimate_us),) if estimate_us is not None else ()
        return entry(name, None, findings=(Finding("estimate", True, "", Weight.INFORM, numbers=numbers),))

    slow, fast, unknown = told("slow", 9.0), told("fast", 2.0), told("unknown", None)
    assert select.estimated((slow, unknown, fast)) == (fast, slow)
