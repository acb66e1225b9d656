"""`kernelwright report`: a past run as a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from kernelwright.app import options
from kernelwright.app.console import console_for, refuse_unwritable, write_json
from kernelwright.errors import UsageError

if TYPE_CHECKING:
    from kernelwright.archive import Archive
    from kernelwright.report.swarm import Attempt

EXAMPLE = "Example: kernelwright report last --out report.html"


def report(
    run: Annotated[str, typer.Argument(metavar="RUN", help='The beginning of a run\'s id, or "last".')] = "last",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the page here.", show_default="kernelwright-out/RUN.html"),
    ] = None,
    runs: Annotated[bool, typer.Option("--list", help="List the runs of the archive instead, newest first.")] = False,
    swarm: Annotated[
        bool,
        typer.Option("--swarm", help="Instead: what each model and agent achieved and cost, and all of them together."),
    ] = False,
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Shows a past run, and writes it as one self-contained HTML page.

    The JSON is that of `optimize`; with --list, a list of {run, problem, device, started_at, finished, reason}; with
    --swarm {members [writer, problems, attempts, correct_at, fast, tokens, cost_usd], best_single, single, swarm}.
    """
    from kernelwright.archive import open_archive

    console = console_for(json_to)
    if swarm:
        _show_swarm(console, json_to, archive)
        return
    if out:
        refuse_unwritable(out)
    with open_archive(archive) as store:
        if runs:
            from rich.table import Table

            found = store.runs()
            listed = Table("run", "problem", "device", "result", box=None, padding=(0, 2))
            for item in found:
                listed.add_row(item.id, item.name, item.device, item.reason)
            console.print(listed)
            keys = ("id", "name", "device", "started_at", "finished", "reason")
            titles = ("run", "problem", "device", "started_at", "finished", "reason")
            write_json(
                [{title: getattr(item, key) for key, title in zip(keys, titles, strict=True)} for item in found],
                json_to,
            )
            return
        outcome = store.outcome(store.find_run(run))

    from kernelwright.report import outcome_json, table, write_html

    page = write_html(outcome, out or _place(outcome.run))
    console.print(table(outcome))
    console.print(outcome.reason, soft_wrap=True)
    console.print(f"report    {page}", soft_wrap=True)
    write_json(outcome_json(outcome, None, page), json_to)


def _place(run: str) -> Path:
    """Where all that is written goes that was given no place."""
    folder = Path("kernelwright-out")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}; name a file with --out") from error
    return folder / f"{run}.html"


def attempts_in(store: "Archive") -> "tuple[Attempt, ...]":
    """What people, agents and models wrote, of all that is archived."""
    from kernelwright.report.swarm import attempts_of
    from kernelwright.search import select

    verdicts = store.verdicts()
    tasks = dict.fromkeys((verdict.problem, verdict.target) for verdict in verdicts)
    counting = [
        counts
        for task in tasks
        for counts in select.counting(item for item in verdicts if (item.problem, item.target) == task)
    ]
    candidates = {digest: store.candidate(digest) for digest in {verdict.candidate for verdict in verdicts}}
    return attempts_of(verdicts, counting, candidates)


def _show_swarm(console: Console, json_to: str | None, archive: Path | None) -> None:
    from kernelwright.archive import open_archive
    from kernelwright.report.swarm import ledger, ledger_json, ledger_sentence, ledger_table

    with open_archive(archive) as store:
        found = ledger(attempts_in(store), [call for _, call in store.calls()])
    console.print(ledger_table(found))
    console.print(ledger_sentence(found), soft_wrap=True)
    write_json(ledger_json(found), json_to)
