"""`kernelwright bench`: a sweep over many problems, which goes on where it was stopped."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.app import choosing, options
from kernelwright.app.console import aside, console_for, refuse_unwritable, write_json
from kernelwright.app.progress import Progress
from kernelwright.errors import KernelwrightError, UsageError
from kernelwright.records import EventKind, Outcome, Problem
from kernelwright.search import parse_budget

if TYPE_CHECKING:
    from kernelwright.archive import Archive
    from kernelwright.writers import Writer

EXAMPLE = "Example: kernelwright bench kernelbench:../KernelBench --level 1,2 --problems 1-20 --scale auto --json -"


def bench(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help='"suite", or "kernelbench:DIR" for a checkout.')],
    level: Annotated[str, typer.Option("--level", metavar="LEVELS", help='Levels of KernelBench, as "1,2".')] = "1",
    problems: Annotated[
        str | None,
        typer.Option(
            "--problems", metavar="WHICH", help='"1-20,40" of a level, "softmax,mlp" of the suite.', show_default="all"
        ),
    ] = None,
    target: options.Device = "auto",
    budget: Annotated[
        str, typer.Option("--budget-per-problem", metavar="TIME", help='How long each may take: "60s", "5m".')
    ] = "60s",
    writers: options.Writers = None,
    baselines: options.Baselines = None,
    attempts: options.Attempts = 8,
    scale: options.Scale = None,
    train_mode: options.TrainMode = False,
    models: options.Models = None,
    max_cost: options.MaxCost = None,
    max_tokens: options.MaxTokens = None,
    turns: options.Turns = 5,
    strategy: options.Strategy = "best-of-swarm",
    again: Annotated[
        bool, typer.Option("--again", help="Search problems anew that the archive holds a finished run of.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write an HTML page as well.", show_default=False)
    ] = None,
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Searches many problems one after the other, and sums up by level.

    A second call takes finished runs of the same machine, versions, judge and writers from the archive and does the
    rest. Wins on degenerate problems are counted apart, with and without. --max-cost and --max-tokens are for the whole
    of a call; when they are spent, the writers without models go on.

    The JSON: device, rows [problem, level, result, writer, speedup {eager, inductor, onnxruntime, openvino,
    best_baseline}, best_baseline, baselines, labels, reason, run], summaries [level, kind, problems, measured, geomean,
    median, returned, slower, failed, unsupported].
    """
    from kernelwright.archive import open_archive
    from kernelwright.problems import load
    from kernelwright.report import BenchRow, Result, bench_json, bench_row, bench_table, write_bench_html
    from kernelwright.search import search
    from kernelwright.targets import environment

    console = console_for(json_to)
    if out:
        refuse_unwritable(out)
    swarm = choosing.Swarm(models, strategy, turns, max_cost, max_tokens)
    device, budget_s = choosing.device_for(target, options.names(writers), swarm), parse_budget(budget)
    chosen = choosing.choose(options.names(writers), swarm, device, archive, options.names(baselines))
    references = list_references(source, level, problems)
    rows: list[BenchRow] = []
    with open_archive(archive) as store:
        for place, reference in enumerate(references, 1):
            name = reference.partition("@")[0]
            title = f"[{place}/{len(references)}] {name}"
            try:
                with aside(json_to):
                    problem = load(reference, scale=scale, training=train_mode)
                outcome = None if again else finished(store, problem, device, chosen)
                if outcome is None:
                    with aside(json_to), Progress(console, title) as progress:
                        outcome = search(
                            problem,
                            device,
                            writers=chosen,
                            budget_s=budget_s,
                            attempts=attempts,
                            archive=store,
                            watch=progress,
                            again=True,
                        )
            except KernelwrightError as error:  # one problem that cannot be judged here does not end a sweep
                rows.append(BenchRow(name, _level(name), Result.UNSUPPORTED, reason=str(error)))
                console.print(f"{title}: {error}", soft_wrap=True)
                continue
            if outcome.interrupted:
                console.print(f"{title}: interrupted; the same command goes on from here")
                break
            console.print(f"{title}: {outcome.reason}", soft_wrap=True)
            rows.append(bench_row(outcome, name, _level(name)))
    console.print(bench_table(rows))
    here = environment(device)
    if out:
        console.print(f"report    {write_bench_html(rows, out, environment=here)}", soft_wrap=True)
    write_json(bench_json(rows, here), json_to)


_ASKED = (EventKind.WRITING, EventKind.SKIPPED)


def list_references(source: str, levels: str, numbers: str | None) -> tuple[str, ...]:
    """The problems of a source. Raises UsageError."""
    if source == "suite" or source.startswith("suite@"):
        from kernelwright.problems.sources.suite import suite_problems

        found = suite_problems(source.partition("@")[2] or None)
        if numbers is None:
            return found
        chosen = {name.strip() for name in numbers.split(",")}
        names = {reference.partition(":")[2].partition("@")[0]: reference for reference in found}
        if unknown := sorted(chosen - set(names)):
            raise UsageError(f"--problems takes names of the suite, and it has no {', '.join(unknown)}")
        return tuple(reference for name, reference in names.items() if name in chosen)
    if source.startswith("kernelbench:"):
        from kernelwright.problems.sources.kernelbench import kernelbench_problems

        wanted = None if numbers is None else set(_numbers(numbers, "--problems"))
        return kernelbench_problems(source.removeprefix("kernelbench:"), list(_numbers(levels, "--level")), wanted)
    raise UsageError(f'{source!r} is no source of problems; write "suite", or "kernelbench:DIR" for a checkout')


def finished(store: "Archive", problem: Problem, device: str, writers: "Sequence[Writer]") -> Outcome | None:
    """The newest finished run that asked these writers beside the same baselines, however long it gave them."""
    from kernelwright.search import earlier

    wanted = {writer.name for writer in writers}
    for outcome in earlier(problem, device, store):
        asked = {event.writer for event in store.events(outcome.run) if event.kind in _ASKED}
        stock = {entry.candidate.writer for entry in outcome.entries if entry.candidate.baseline}
        if asked.issuperset(wanted) and stock <= wanted:
            return outcome
    return None


def _level(name: str) -> str:
    """ "level 2" of "kernelbench:level2/40", "suite" of "suite:softmax"."""
    match = re.search(r"level(\d+)/", name)
    return f"level {match[1]}" if match else name.partition(":")[0]


def _numbers(written: str, option: str) -> Iterator[int]:
    """The numbers in "1-20,40". Raises UsageError."""
    for part in written.split(","):
        low, dash, high = part.strip().partition("-")
        try:
            first, last = int(low), int(high) if dash else int(low)
        except ValueError:
            raise UsageError(f'{option} {written!r} is not understood; write it as "1-20,40"') from None
        yield from range(first, last + 1)
