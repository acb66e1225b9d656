"""A run, and a suite of them, in the terminal."""

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kernelwright.records import Comparison, Entry, Outcome, Status
from kernelwright.report.bench import BenchRow, Summary
from kernelwright.report.wording import (
    interval,
    labels,
    microseconds,
    over_compile,
    over_eager,
    ranked,
    standing,
    times,
)


def table(outcome: Outcome) -> Table:
    """All candidates: those that passed with their times, the best marked, below them the others with the reason.

    Readable at 80 columns.
    """
    both = Table.grid(padding=(0, 0))
    both.add_column()
    passed = [entry for entry in ranked(outcome) if entry.verdict.status is Status.PASSED]
    others = [entry for entry in ranked(outcome) if entry.verdict.status is not Status.PASSED]
    if passed:
        both.add_row(_passed(outcome, passed))
    if others:
        both.add_row(_others(others))
    if not outcome.entries:
        both.add_row(Text("no candidate was judged", style="dim"))
    return both


def _passed(outcome: Outcome, entries: list[Entry]) -> Table:
    best = outcome.best.candidate.digest if outcome.best else None
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim", pad_edge=False)
    rows.add_column("")
    rows.add_column("writer", overflow="fold", min_width=12)
    rows.add_column("median", justify="right", no_wrap=True)
    rows.add_column("over eager", justify="right", no_wrap=True)
    rows.add_column("over torch.compile", justify="right", no_wrap=True)
    rows.add_column("note", overflow="fold", min_width=10)
    for entry in entries:
        won = entry.candidate.digest == best
        verdict = entry.verdict
        notes = [standing(verdict), *labels(verdict)]
        if entry.candidate.baseline:
            notes[0] = "baseline"
        rows.add_row(
            Text("★", "bold green") if won else "",
            Text(entry.candidate.title, "bold green" if won else "dim" if entry.candidate.baseline else ""),
            microseconds(verdict.timing.median_us if verdict.timing else None),
            _ratio(over_eager(entry)),
            _ratio(over_compile(entry)),
            Text(", ".join(notes), "green" if won else "dim"),
        )
    return rows


def _ratio(comparison: Comparison | None) -> Text:
    if comparison is None:
        return Text("–", "dim")
    return Text.assemble((times(comparison.speedup), "bold"), (f" {interval(comparison)}", "dim"))


def _others(entries: list[Entry]) -> Group:
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim", pad_edge=False)
    rows.add_column("rejected", overflow="fold", min_width=12)
    rows.add_column("status", no_wrap=True)
    rows.add_column("why", overflow="fold", ratio=1)
    for entry in entries:
        rows.add_row(
            Text(entry.candidate.title),
            Text(entry.verdict.status.value, "red"),
            Text(entry.verdict.reason or f"at the stage {entry.verdict.stage.value}", "dim"),
        )
    return Group("", rows)


def bench_grid(rows: Sequence[BenchRow], sums: Sequence[Summary]) -> Table:
    """What `report.bench.bench_table` shows."""
    both = Table.grid(padding=(0, 0))
    both.add_column()
    listed = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim", pad_edge=False)
    listed.add_column("problem", no_wrap=True)
    listed.add_column("result", no_wrap=True)
    listed.add_column("best", overflow="fold")
    for head in ("eager", "compile", "best base"):
        listed.add_column(head, justify="right", no_wrap=True)
    listed.add_column("note", overflow="fold")
    untold = Table.grid(padding=(0, 2, 0, 0))
    untold.add_column(no_wrap=True)
    untold.add_column(overflow="fold", ratio=1, style="dim")
    for row in rows:
        won = row.result.value == "faster"
        failed = row.result.value in ("failed", "unsupported")
        listed.add_row(
            Text(_short(row.problem)),
            Text(row.result.value, "green" if won else "red" if failed else "dim"),
            Text(row.writer),
            times(row.over_eager),
            times(row.over_inductor),
            Text(times(row.over_best), "bold green" if won else ""),
            Text(", ".join(row.labels), "dim"),
        )
        if failed and row.reason:
            untold.add_row(_short(row.problem), Text(row.reason))
    both.add_row(listed)
    if untold.row_count:
        both.add_row(Group("", untold))
    total = Table(box=None, padding=(0, 2, 0, 0), header_style="bold dim", pad_edge=False)
    total.add_column("level", overflow="fold", min_width=10)
    for head in ("n", "geomean", "median", "returned", "slower", "failed"):
        total.add_column(head, justify="right", no_wrap=True)
    for item in sums:
        total.add_row(
            Text(item.level) if item.kind == "all" else Text(f"  {item.kind}", "dim"),
            f"{item.measured}/{item.problems}",
            Text(times(item.geomean_over_best), "bold"),
            times(item.median_over_best),
            times(item.returned_over_best),
            str(item.slower),
            str(item.failed + item.unsupported),
        )
    both.add_row(Group("", total))
    return both


def _short(problem: str) -> str:
    """ "level2/40" of "kernelbench:level2/40"; the source stands in the command."""
    return problem.rpartition(":")[2]
