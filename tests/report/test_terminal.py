"""Tables in the terminal."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from kernelwright.records import Outcome
from kernelwright.report import bench_table, table


def shown(renderable, width: int = 80) -> str:
    console = Console(width=width, file=StringIO(), force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()


def test_the_table_marks_the_best_and_fits(outcome: Outcome) -> None:
    text = shown(table(outcome))
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    (best,) = [line for line in lines if "★" in line]
    assert "1.75 ms" in best and "2.08× 2.03–2.12" in best and "1.83× 1.77–1.86" in best and "confirmed" in best
    assert "fixed shape" in text and "baseline" in text
    assert "WRONG_VALUES" in text and "heavy-tailed" in text


def test_at_120_columns_a_candidate_is_a_line(outcome: Outcome) -> None:
    assert any(
        "template add+norm grain=4" in line and "fixed shape" in line
        for line in shown(table(outcome), 120).splitlines()
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_markup_in_names_is_text(outcome: Outcome, width: int) -> None:
    entry = outcome.entries[-1]
    odd = replace(entry, candidate=replace(entry.candidate, label="[red]x[/red] [/]"))
    assert "[red]" in shown(table(replace(outcome, entries=(odd,), best=None)), width)


def test_runs_without_a_winner_or_a_candidate(fruitless: Outcome) -> None:
    assert "★" not in shown(table(fruitless))
    assert "no candidate was judged" in shown(table(replace(fruitless, entries=())))


def test_bench_table_fits(rows) -> None:
    text = shown(bench_table(rows))
    assert max(map(len, text.splitlines())) <= 80
    assert "degenerate" in text and "all levels" in text and "no candidate" in text
