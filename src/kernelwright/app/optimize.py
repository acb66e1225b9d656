"""`kernelwright optimize`: a reference in, an artifact and a report out."""

import re
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from kernelwright.app import choosing, options
from kernelwright.app.console import aside, console_for, refuse_folder, write_json
from kernelwright.app.progress import Progress
from kernelwright.app.refusal import refused
from kernelwright.errors import TooLargeError, UsageError
from kernelwright.records import Outcome, Problem
from kernelwright.search import parse_budget

if TYPE_CHECKING:
    from kernelwright.archive import Archive

EXAMPLE = "Example: kernelwright optimize examples/vision_attention.py:VisionAttention --target cpu --budget 3m"


def optimize(
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="REF",
            help='What to make fast: "file.py:Class", "kernelbench:level2/40@DIR", "suite:softmax".',
            show_default=False,
        ),
    ] = None,
    inputs: options.Inputs = None,
    target: options.Device = "auto",
    budget: options.Budget = "3m",
    writers: options.Writers = None,
    baselines: options.Baselines = None,
    attempts: options.Attempts = 8,
    scale: options.Scale = None,
    train_mode: options.TrainMode = False,
    autocast: options.Autocast = None,
    models: options.Models = None,
    max_cost: options.MaxCost = None,
    max_tokens: options.MaxTokens = None,
    turns: options.Turns = 5,
    strategy: options.Strategy = "best-of-swarm",
    resume: options.Resume = None,
    references: options.References = None,
    profiles: options.Profiles = None,
    profile_images: options.ProfileImages = None,
    executor: options.Executor = "local",
    again: Annotated[
        bool, typer.Option("--again", help="Search although an earlier run has tried all that these writers know.")
    ] = False,
    misses: Annotated[
        Path | None,
        typer.Option(
            "--misses",
            metavar="ARCHIVE",
            help="Instead of REF: work off what torch.compile(backend='kernelwright') asked that archive for in vain, "
            "the most frequent first. Each gets the whole budget.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for artifact and report.")] = Path(
        "kernelwright-out"
    ),
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Finds, proves and times faster kernels for a module, and saves the winner.

    Writes DIR/NAME-RUN/ with report.html, outcome.json and, where something beat the baselines, an artifact for
    kernelwright.load. Exit code 0 also when nothing did: the reason is shown. Ctrl-C keeps what was found. What is too
    large for this machine is UNSUPPORTED and exit code 1.

    The JSON: problem, target, device, candidates [writer, status, stage, median_us, speedup, findings], best {writer,
    status, confirmed, median_us, speedup {eager, inductor, onnxruntime, openvino, best_baseline}, interval}, reason,
    artifact, report. With --misses a list of these.
    """
    from kernelwright.archive import open_archive
    from kernelwright.problems import load
    from kernelwright.report import outcome_json
    from kernelwright.search import search
    from kernelwright.search.executors import executor_named

    if (reference is None) == (misses is None):
        raise UsageError('give either what to make fast, as "file.py:Class", or --misses ARCHIVE')
    console = console_for(json_to)
    refuse_folder(out)
    swarm = choosing.Swarm(models, strategy, turns, max_cost, max_tokens, resume)
    device, budget_s = choosing.device_for(target, options.names(writers), swarm), parse_budget(budget)
    chosen = choosing.choose(options.names(writers), swarm, device, archive, options.names(baselines))
    judging = executor_named(executor)
    beside = choosing.beside(references or (), profiles or (), profile_images or ())

    def run(problem: Problem, store: "Archive") -> Outcome:
        began = time.time()
        with aside(json_to), Progress(console, f"{problem.name} on {device}") as progress:
            outcome = search(
                problem,
                device,
                writers=chosen,
                budget_s=budget_s,
                attempts=attempts,
                archive=store,
                watch=progress,
                beside=choosing.with_best(beside, problem, device, store),
                executor=judging,
                again=again,
            )
        if outcome.started_at < began:
            day = time.strftime("%d %B %Y, %H:%M", time.localtime(outcome.started_at))
            console.print(f"searched to the end on {day}, run {outcome.run}; --again searches anew", soft_wrap=True)
        return outcome

    if misses is not None:
        if not misses.is_file():
            raise UsageError(f"there is no archive {misses}")
        with open_archive(misses) as asked, open_archive(archive) as store:
            found = []
            for miss in asked.misses(device):
                outcome = run(miss.problem, store)
                found.append(finish(outcome, out, console))
                if outcome.interrupted:
                    break
        console.print(f"worked off {len(found)} misses")
        write_json(found, json_to)
        return
    assert reference is not None
    try:
        with aside(json_to):
            problem = load(reference, inputs=inputs or (), scale=scale, training=train_mode, autocast=autocast)
    except TooLargeError as error:
        console.print(f"UNSUPPORTED: {error}", soft_wrap=True)
        write_json(outcome_json(refused(error, device)), json_to)
        raise typer.Exit(1) from None
    with open_archive(archive) as store:
        outcome = run(problem, store)
    write_json(finish(outcome, out, console), json_to)


def finish(outcome: Outcome, out: Path, console: Console) -> dict[str, Any]:
    """Saves what a search found below `out`, shows it, and returns it as `--json` writes it."""
    from kernelwright.report import outcome_json, table, write_html

    name = re.sub(r"[^\w.-]+", "-", outcome.problem.name)
    folder = out / f"{name}-{outcome.run}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    artifact = save(outcome, folder / "artifact")
    report = write_html(outcome, folder / "report.html")
    summary = outcome_json(outcome, artifact, report)
    write_json(summary, str(folder / "outcome.json"))
    console.print(table(outcome))
    console.print(outcome.reason, soft_wrap=True)
    if artifact:
        console.print(f"artifact  {artifact}", soft_wrap=True)
    console.print(f"report    {report}", soft_wrap=True)
    return summary


def save(outcome: Outcome, folder: Path) -> Path | None:
    """The winner as an artifact that `kernelwright.load` takes; None where there is no winner."""
    if outcome.best is None:
        return None
    from kernelwright.deploy import drop_in
    from kernelwright.graph import build_reference

    with redirect_stdout(sys.stderr):  # the user's file is run, and may print
        drop_in(build_reference(outcome.problem), outcome.problem, outcome.best).save(folder)
    return folder
