"""`kernelwright agent VERB`: what a coding agent with nothing but a shell needs to write kernels and have them judged.

A verb that takes long answers `"status": "running"` within 20 s; `agent result JOB` asks again. The judging goes on in
a process of its own, whatever becomes of the agent.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.app import options
from kernelwright.app.console import aside, console_for, write_json

if TYPE_CHECKING:
    from kernelwright.app.desk import Desk

app = typer.Typer(
    name="agent",
    help="For coding agents: tasks, candidates, verdicts. skills/kernelwright/SKILL.md teaches the loop.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WAIT_S = 20.0
BASELINES = ("eager", "inductor")

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's id, or how it begins.")]
Name = Annotated[
    str, typer.Option("--as", metavar="NAME", help="What wrote it: your model's name. Tables count by it.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="What was done, in a line.", show_default=False)]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", max=WAIT_S, min=0, help="How long to wait for it.")]


@app.command(epilog="Example: kernelwright agent task examples/rmsnorm.py:RMSNorm --target cpu --json -")
def task(
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="REF|TASK", help="A problem as `optimize` takes it, or a task's id.", show_default=False
        ),
    ] = None,
    inputs: options.Inputs = None,
    target: options.Device = "auto",
    scale: options.Scale = None,
    baselines: Annotated[
        str, typer.Option("--baselines", metavar="NAMES", help="Stock tools that candidates are timed beside.")
    ] = ",".join(BASELINES),
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Opens a task and tells what is asked; without REF lists the tasks that are open.

    The JSON: task, problem, target, brief (Markdown: read it), jobs, best. Without REF: tasks [task, problem, target].
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        if reference is None:
            _tell(desk.list_tasks(), json_to)
            return
        with aside(json_to):
            told = open_or_find(desk, reference, target, inputs or (), scale, options.names(baselines) or (), archive)
    _tell(told, json_to)


def open_or_find(
    desk: "Desk",
    reference: str,
    target: str,
    inputs: Sequence[str] = (),
    scale: str | None = None,
    baselines: Sequence[str] = BASELINES,
    archive: Path | None = None,
) -> dict[str, Any]:
    """The task of that id, or the one for that problem on the device, opened if needed."""
    from kernelwright.problems import load
    from kernelwright.search import choose_device, choose_writers

    if reference in {task.id for task in desk.store.tasks()}:
        return desk.task(reference)
    device = choose_device(target)
    stock = [writer.name for writer in choose_writers(baselines) if writer.baseline]
    return desk.open_task(load(reference, inputs=inputs, scale=scale), device, stock, archive)


@app.command(epilog="Example: kernelwright agent trial TASK a.py b.py --json -")
def trial(
    name: TaskName,
    candidates: Annotated[
        list[Path], typer.Argument(metavar="CANDIDATE.py...", help="Files, or folders with a model.py.")
    ],
    agent: Name = "agent",
    note: Note = "",
    wait: Wait = WAIT_S,
    json_to: options.Json = None,
) -> None:
    """A cheap look at one or more variants: built, one case, a short timing. It may reject and rank, never accept.

    The JSON: job, status (running, done, failed), trials [candidate, label, status, median_us, message], baselines_us.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        given = [desk.read(name, path, agent, note) for path in candidates]
        _tell(desk.hand_in(name, "trial", given, agent, wait), json_to)


@app.command(epilog="Example: kernelwright agent submit TASK mine.py --as my-model --json -")
def submit(
    name: TaskName,
    candidate: Annotated[Path, typer.Argument(metavar="CANDIDATE.py", help="A file, or a folder with a model.py.")],
    agent: Name = "agent",
    note: Note = "",
    wait: Wait = WAIT_S,
    json_to: options.Json = None,
) -> None:
    """The full judge for one candidate. What was judged before is answered at once.

    The JSON: job, status (running, done, failed), verdict {candidate, status, stage, reason, findings (those not ok),
    timing, comparisons, speedup (over the fastest baseline known), baselines_not_timed, labels, log}.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        _tell(desk.hand_in(name, "submit", [desk.read(name, candidate, agent, note)], agent, wait), json_to)


@app.command(epilog="Example: kernelwright agent result j0123456789 --json -")
def result(
    job: Annotated[str, typer.Argument(metavar="JOB", help="As trial, submit or best --confirm named it.")],
    wait: Wait = WAIT_S,
    json_to: options.Json = None,
) -> None:
    """The answer to a job, or that it is still running.

    The JSON is that of the verb that handed the job in.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        _tell(desk.result(job, wait), json_to)


@app.command(epilog="Example: kernelwright agent best TASK --confirm --json -")
def best(
    name: TaskName,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Judge the best again on fresh seeds; only that may be called a speedup.")
    ] = False,
    wait: Wait = WAIT_S,
    json_to: options.Json = None,
) -> None:
    """The best candidate so far with its text, and the others in order.

    The JSON: task, best {.. verdict, sources}, baselines_us, others, rejected, waiting (jobs). With --confirm: that of
    `submit`.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        _tell(desk.confirm(name, wait) if confirm else desk.best(name), json_to)


@app.command(epilog="Example: kernelwright agent profile 3fa2c1 --json -")
def profile(
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE|JOB", help="How a candidate's digest begins; or a job.")
    ],
    json_to: options.Json = None,
) -> None:
    """Where a candidate's time goes, as far as its verdict tells.

    The JSON: candidate, title, status, ledger [kernel, share], text (Markdown), sources.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        _tell(desk.profile(candidate), json_to)


@app.command(epilog="Example: kernelwright agent search TASK softmax --status passed --json -")
def search(
    name: TaskName,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORDS", help="All must occur.")] = None,
    status: Annotated[str, typer.Option("--status", metavar="STATUS", help='As "passed".', show_default=False)] = "",
    json_to: options.Json = None,
) -> None:
    """Candidates that were tried, by words in their names, notes and texts.

    The JSON: task, candidates [candidate, title, status, median_us, speedup, reason], found.
    """
    from kernelwright.app.desk import Desk

    with Desk() as desk:
        _tell(desk.candidates(name, " ".join(words or []), status), json_to)


@app.command(epilog="Example: kernelwright agent facts --target cpu --json -")
def facts(target: options.Device = "auto", json_to: options.Json = None) -> None:
    """What the device can do, as measured.

    The JSON is a device's facts: name, arch, features, threads, cache_bytes, bandwidth_gbs, peak_gflops.
    """
    from kernelwright.app import desk
    from kernelwright.records import encode
    from kernelwright.search import choose_device

    _tell(encode(desk.facts(choose_device(target))), json_to)


@app.command(hidden=True)
def serve(
    name: TaskName,
    lock: Annotated[int | None, typer.Option("--lock", help="The task's lock, already held.")] = None,
    idle: Annotated[float | None, typer.Option("--idle", help="Seconds without a job after which it ends.")] = None,
) -> None:
    """Serves a task. Other verbs start it where it is needed."""
    from kernelwright.app import desk

    print(desk.serve(name, lock, desk.IDLE_S if idle is None else idle))


def _tell(told: dict[str, Any], json_to: str | None) -> None:
    console = console_for(json_to)
    if json_to != "-":
        for line in _lines(told):
            console.print(line, soft_wrap=True)
    write_json(told, json_to)


def _lines(value: Any, indent: str = "") -> list[str]:
    """A document as indented lines; longer texts stand on lines of their own."""
    lines = []
    pairs = value.items() if isinstance(value, dict) else (("-", item) for item in value)
    for key, item in pairs:
        if isinstance(item, (dict, list)):
            lines += [f"{indent}{key}", *_lines(item, indent + "  ")] if item else []
        elif isinstance(item, str) and "\n" in item:
            lines += [f"{indent}{key}", *(f"{indent}  {line}" for line in item.splitlines())]
        elif item not in (None, ""):
            lines.append(f"{indent}{key}  {item}")
    return lines
