"""A suite of problems as rows, and what may be said of them together.

Three kinds of problem have no place in a geometric mean of kernels without a word: those on which the best was an
exact shortcut (`algorithmic`), those whose result hardly depends on the input (`degenerate problem`), and those on
which nothing passed. So every summary is given with the first two and without, and the last are counted beside it.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.records import Entry, Environment, Outcome, Status
from kernelwright.report.wording import BASELINES, labels

if TYPE_CHECKING:
    from rich.table import Table

_APART = ("algorithmic", "degenerate problem")


class Result(Enum):
    """How a problem ended."""

    FASTER = "faster"
    """A confirmed candidate beats every baseline; it is returned."""
    ORIGINAL = "original"
    """Nothing beat the baselines, or nobody proposed anything; the original is returned."""
    FAILED = "failed"
    """No candidate passed, or no baseline was timed; the original is returned."""
    UNSUPPORTED = "unsupported"
    """The problem cannot be judged on this machine."""


@dataclass(frozen=True)
class BenchRow:
    """A problem of a suite and its end. Speedups are those of the winner, or else of the fastest that passed."""

    problem: str
    """As the suite names it: "kernelbench:level1/19"."""
    level: str
    """"level 1", or the suite's own word; rows are summed up by it."""
    result: Result
    writer: str = ""
    """Title of the candidate whose numbers these are; empty where there is none."""
    over_eager: float | None = None
    over_inductor: float | None = None
    over_best: float | None = None
    """Over the fastest baseline of the run. Above 1 only where the candidate is confirmed."""
    labels: tuple[str, ...] = ()
    run: str = ""
    reason: str = ""
    """Why there is no winner; empty where there is one."""
    over_onnxruntime: float | None = None
    over_openvino: float | None = None
    best_baseline: str = ""
    """Title of the fastest baseline, which `over_best` is over; empty where that is None."""
    baselines: tuple["BenchBaseline", ...] = ()
    """All that were judged."""

    @property
    def apart(self) -> bool:
        """Whether a speedup here says nothing of kernels: an exact shortcut or a degenerate problem."""
        return any(label in _APART for label in self.labels)


@dataclass(frozen=True)
class BenchBaseline:
    """A stock tool on a problem of a suite."""

    title: str
    status: Status
    median_us: float | None
    """Beside the row's candidate; its own where there is none, or where it was ready only later."""
    reason: str = ""
    """Why it has no time, or could not have won."""


@dataclass(frozen=True)
class Summary:
    """Rows of a level together."""

    level: str
    kind: str
    """"all", or "without algorithmic and degenerate"."""
    problems: int
    measured: int
    """Rows with a speedup over the best baseline; the three figures are theirs."""
    geomean_over_eager: float | None
    geomean_over_inductor: float | None
    geomean_over_onnxruntime: float | None
    geomean_over_openvino: float | None
    geomean_over_best: float | None
    median_over_best: float | None
    returned_over_best: float | None
    """Geometric mean of what a user gets over all problems that can run: the winner's speedup, or the original's 1."""
    slower: int
    """Measured rows whose best candidate is slower than the best baseline."""
    failed: int
    unsupported: int


def bench_row(outcome: Outcome, problem: str, level: str) -> BenchRow:
    """The row of a finished search."""
    entry = outcome.best or _fastest_passed(outcome)
    judged = [item.verdict.status for item in outcome.entries]
    bare = BenchRow(
        problem,
        level,
        Result.ORIGINAL,
        run=outcome.run,
        reason="" if outcome.best else outcome.reason,
        baselines=_baselines(outcome, entry),
    )
    if entry is None:
        if judged and all(item.candidate.baseline for item in outcome.entries) and any(map(_timed, outcome.entries)):
            return bare  # none proposed
        unsupported = bool(judged) and all(status is Status.UNSUPPORTED for status in judged)
        return replace(bare, result=Result.UNSUPPORTED if unsupported else Result.FAILED)
    best = entry.verdict.best_baseline
    # A claim to be faster that was not confirmed enters no table; one to be slower counts against us as it is.
    if outcome.best is None and (best is None or best.speedup > 1):
        return bare
    over = {name: compared.speedup for name in BASELINES if (compared := entry.verdict.speedup(name))}
    return replace(
        bare,
        result=Result.FASTER if outcome.best else Result.ORIGINAL,
        writer=entry.candidate.title,
        over_eager=over.get("eager"),
        over_inductor=over.get("inductor"),
        over_onnxruntime=over.get("onnxruntime"),
        over_openvino=over.get("openvino"),
        over_best=best.speedup if best else None,
        best_baseline=best.baseline if best else "",
        labels=labels(entry.verdict),
    )


def _baselines(outcome: Outcome, shown: Entry | None) -> tuple[BenchBaseline, ...]:
    beside = {item.candidate: item.timing for item in shown.verdict.comparisons} if shown else {}
    found = []
    for candidate, verdict in ((item.candidate, item.verdict) for item in outcome.entries if item.candidate.baseline):
        timing = beside.get(candidate.digest) or verdict.timing
        median_us = timing.median_us if timing else None
        found.append(BenchBaseline(candidate.title, verdict.status, median_us, verdict.reason))
    return tuple(found)


def _timed(entry: Entry) -> bool:
    return entry.verdict.timing is not None


def summaries(rows: Sequence[BenchRow]) -> tuple[Summary, ...]:
    """For each level in order of appearance, and for all together where there are several: with and without."""
    groups = {level: [row for row in rows if row.level == level] for level in dict.fromkeys(row.level for row in rows)}
    if len(groups) > 1:
        groups["all levels"] = list(rows)
    found = []
    for level, group in groups.items():
        found.append(_summary(level, "all", group))
        if any(row.apart for row in group):
            rest = [row for row in group if not row.apart]
            found.append(_summary(level, "without algorithmic and degenerate", rest))
    return tuple(found)


def bench_json(rows: Sequence[BenchRow], environment: Environment | None = None) -> dict[str, Any]:
    """The document of `kernelwright bench --json`."""
    return {
        "device": None if environment is None else environment.facts.name,
        "rows": [
            {
                "problem": row.problem,
                "level": row.level,
                "result": row.result.value,
                "writer": row.writer or None,
                "speedup": {
                    "eager": row.over_eager,
                    "inductor": row.over_inductor,
                    "onnxruntime": row.over_onnxruntime,
                    "openvino": row.over_openvino,
                    "best_baseline": row.over_best,
                },
                "best_baseline": row.best_baseline or None,
                "baselines": [
                    {
                        "baseline": item.title,
                        "status": item.status.value,
                        "median_us": item.median_us,
                        "reason": item.reason,
                    }
                    for item in row.baselines
                ],
                "labels": list(row.labels),
                "reason": row.reason,
                "run": row.run,
            }
            for row in rows
        ],
        "summaries": [
            {
                "level": item.level,
                "kind": item.kind,
                "problems": item.problems,
                "measured": item.measured,
                "geomean": {
                    "eager": item.geomean_over_eager,
                    "inductor": item.geomean_over_inductor,
                    "onnxruntime": item.geomean_over_onnxruntime,
                    "openvino": item.geomean_over_openvino,
                    "best_baseline": item.geomean_over_best,
                },
                "median": item.median_over_best,
                "returned": item.returned_over_best,
                "slower": item.slower,
                "failed": item.failed,
                "unsupported": item.unsupported,
            }
            for item in summaries(rows)
        ],
    }


def bench_table(rows: Sequence[BenchRow]) -> "Table":
    """The rows and below them the summaries, for the terminal; readable at 80 columns."""
    from kernelwright.report.terminal import bench_grid

    return bench_grid(rows, summaries(rows))


def write_bench_html(
    rows: Sequence[BenchRow], path: Path, *, title: str = "Benchmark", environment: Environment | None = None
) -> Path:
    """One self-contained page of the rows and the summaries."""
    from kernelwright.report.page import Mark, PlotRow, machine, write_page
    from kernelwright.report.scale import ratio_scale
    from kernelwright.report.wording import times

    measured = [row for row in rows if row.over_best is not None]
    measured.sort(key=lambda row: row.over_best or 0.0, reverse=True)
    ratios = [value for row in measured for value in (row.over_best, row.over_eager) if value is not None]
    scale = ratio_scale(ratios)

    def marks(row: BenchRow) -> tuple[Mark, ...]:
        pairs = (("eager", row.over_eager), ("compile", row.over_best))
        return tuple(Mark(kind, *[scale.place(value)] * 3) for kind, value in pairs if value is not None)

    plotted = tuple(
        PlotRow(
            " · ".join((row.problem, *(label for label in row.labels if label in _APART))),
            f"● {times(row.over_best)}",
            "other" if row.apart else "best" if row.result is Result.FASTER else "base",
            marks(row),
        )
        for row in measured
    )
    return write_page(
        path,
        "bench.html.j2",
        title=title,
        rows=rows,
        summaries=summaries(rows),
        plot=(scale, plotted) if plotted else None,
        environment=environment,
        machine=machine,
    )


def _fastest_passed(outcome: Outcome) -> Entry | None:
    compared = [
        (entry.verdict.best_baseline.speedup, entry)
        for entry in outcome.entries
        if not entry.candidate.baseline and entry.verdict.best_baseline and entry.verdict.timing
    ]
    return max(compared, key=lambda pair: pair[0])[1] if compared else None


def _summary(level: str, kind: str, rows: Sequence[BenchRow]) -> Summary:
    best = [row.over_best for row in rows if row.over_best is not None]
    usable = [row for row in rows if row.result is not Result.UNSUPPORTED]
    returned = [(row.over_best or 1.0) if row.result is Result.FASTER else 1.0 for row in usable]
    return Summary(
        level,
        kind,
        problems=len(rows),
        measured=len(best),
        geomean_over_eager=_geomean(row.over_eager for row in rows),
        geomean_over_inductor=_geomean(row.over_inductor for row in rows),
        geomean_over_onnxruntime=_geomean(row.over_onnxruntime for row in rows),
        geomean_over_openvino=_geomean(row.over_openvino for row in rows),
        geomean_over_best=_geomean(best),
        median_over_best=statistics.median(best) if best else None,
        returned_over_best=_geomean(returned),
        slower=sum(value < 1 for value in best),
        failed=sum(row.result is Result.FAILED for row in rows),
        unsupported=sum(row.result is Result.UNSUPPORTED for row in rows),
    )


def _geomean(values: Iterable[float | None]) -> float | None:
    usable = [value for value in values if value is not None and value > 0]
    return math.exp(statistics.fmean(map(math.log, usable))) if usable else None
