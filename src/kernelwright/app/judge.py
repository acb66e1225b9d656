"""`kernelwright judge`: any kernel anyone brings, before the full judge."""

import ast
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kernelwright.app import bundle, options
from kernelwright.app.console import aside, console_for, write_json
from kernelwright.app.progress import Progress
from kernelwright.app.refusal import refused
from kernelwright.errors import TooLargeError, UsageError
from kernelwright.records import Brief, Candidate, Case, Entry, Problem, SourceFile, Status, Verdict, Weight
from kernelwright.search import parse_budget
from kernelwright.writers import Bench
from kernelwright.writers.languages import language_of
from kernelwright.writers.replay import candidate_of

EXAMPLE = "Example: kernelwright judge examples/vision_attention.py:VisionAttention mine.py --json -"


class GivenWriter:
    """Submits one candidate that exists already."""

    name = "given"
    baseline = False

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    def missing(self, target: str) -> str | None:
        return None

    async def write(self, brief: Brief, bench: Bench) -> None:
        await bench.submit(self.candidate)


def judge(
    problem: Annotated[
        str | None,
        typer.Argument(metavar="PROBLEM", help='The reference: "file.py:Class", "kernelbench:..."', show_default=False),
    ] = None,
    candidate: Annotated[
        Path | None,
        typer.Argument(
            metavar="CANDIDATE.py",
            help="Defines class ModelNew; kernel files lie beside it. Or a folder with a model.py.",
            show_default=False,
        ),
    ] = None,
    survey: Annotated[
        bool,
        typer.Option("--survey", help="No candidate: whether zeros, a constant or stale results would pass PROBLEM."),
    ] = False,
    bundle_to: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="ZIP", help="Write what the verdict rests on.", show_default=False),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="ZIP", help="No PROBLEM: judge again what is in ZIP.", show_default=False),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Replay a ZIP from elsewhere: its reference runs.")] = False,
    inputs: options.Inputs = None,
    target: options.Device = "auto",
    baselines: Annotated[
        str, typer.Option("--baselines", metavar="NAMES", help="Stock tools to time it beside, separated by commas.")
    ] = "eager",
    budget: options.Budget = "10m",
    scale: options.Scale = None,
    train_mode: options.TrainMode = False,
    autocast: options.Autocast = None,
    backward: Annotated[
        bool,
        typer.Option(
            "--backward", help="Gradients too: of inputs and parameters, verified and timed with the results."
        ),
    ] = False,
    json_to: options.Json = None,
    archive: options.ArchivePath = None,
) -> None:
    """Builds, verifies and times one candidate, and shows every finding. Always anew, unless --archive names one.

    Exit code 0: passed. 1: judged and failed, or too large for this machine (UNSUPPORTED). 2: bad usage.

    The JSON: status, stage, confirmed, findings [check, ok, weight, message, numbers], timing {median_us, quartiles_us,
    samples_us, method, cold_cache, resolution_us}, comparisons [baseline, median_us, speedup, interval], labels, log.
    With --replay also replayed {cases, status, reason}: what became of it on the very inputs of the bundle.
    With --survey: degenerate, sentence, left_out (cases not asked, the time was up), impostors [name, passes, fails]:
    the families of inputs that tell an answer from one that never looked, and those that do not.
    """
    from kernelwright.archive import Archive
    from kernelwright.judge import Judge, differentiated, differentiating
    from kernelwright.judge.patience import patience
    from kernelwright.problems import load
    from kernelwright.report import verdict_json
    from kernelwright.search import choose_device, choose_writers, search

    console = console_for(json_to)
    budget_s = parse_budget(budget)
    stock = [writer for writer in choose_writers(options.names(baselines)) if writer.baseline]
    before: Verdict | None = None
    replayed: Verdict | None = None
    if replay is not None:
        loaded, entry = bundle.read(replay, trust=trust)
        given, before = entry.candidate, entry.verdict
        device = choose_device(target, language=given.target.partition("@")[0])
        if before.cases:
            with aside(json_to), Judge(loaded, device) as judge_again:
                replayed = judge_again.again(given, before.cases)
    else:
        if problem is None:
            raise typer.BadParameter("Missing argument 'PROBLEM'.")
        device = choose_device(target, language=_language(candidate) if candidate is not None else "torch")
        try:
            with aside(json_to), patience(budget_s, f"loading {problem}"):
                loaded = load(problem, inputs=inputs or (), scale=scale, training=train_mode, autocast=autocast)
        except TooLargeError as error:
            (unsupported,) = refused(error, device).entries
            _show(unsupported, console)
            write_json(verdict_json(unsupported.verdict), json_to)
            raise typer.Exit(1) from None
        asked = differentiated(loaded) if backward else loaded
        if survey:
            _survey(asked, device, json_to, budget_s)
            return
        if candidate is None:
            raise UsageError("which candidate? Name its file after the problem, or ask for --survey")
        given = read_candidate(candidate, loaded, device)
        given, loaded = differentiating(given, asked) if backward else given, asked
    with aside(json_to), Archive(archive) as store, Progress(console, f"{given.title} for {loaded.name}") as progress:
        outcome = search(
            loaded, device, writers=[*stock, GivenWriter(given)], budget_s=budget_s, archive=store, watch=progress
        )
    entry = next((item for item in outcome.entries if item.candidate.digest == given.digest), None)
    if entry is None:
        why = dict(outcome.skipped).get("given") or outcome.reason
        raise UsageError(f"{candidate or replay} was not judged: {why}")
    _show(entry, console)
    if before is not None:
        console.print(f"the bundle says {before.status.value}, judged by version {before.judge}", soft_wrap=True)
    if before is not None and replayed is not None:
        why = f": {replayed.reason}" if replayed.reason else ""
        console.print(
            f"on the bundle's own {len(before.cases)} cases it is {replayed.status.value}{why}", soft_wrap=True
        )
    if bundle_to is not None:
        bundle.write(bundle_to, loaded, entry)
    told = verdict_json(entry.verdict)
    if replayed is not None:
        told["replayed"] = {
            "cases": len(replayed.cases),
            "status": replayed.status.value,
            "reason": replayed.reason,
        }
    write_json(told, json_to)
    if entry.verdict.status is not Status.PASSED or (replayed and replayed.status is not Status.PASSED):
        raise typer.Exit(1)


def _survey(problem: Problem, device: str, json_to: str | None, budget_s: float) -> None:
    from kernelwright.judge import Judge

    console = console_for(json_to)

    def watch(place: int, count: int, case: Case) -> None:
        weights = "" if case.weights == "original" else f", weights {case.weights}"
        console.print(f"[{place}/{count}] {case.family}{weights}", markup=False)

    with aside(json_to), Judge(problem, device) as asked:
        found = asked.survey(whole=True, budget_s=budget_s, watch=watch)
    table = Table("an answer that is", "passes", "is rejected on", box=None, padding=(0, 2), header_style="bold")
    for item in found.impostors:
        table.add_row(item.name, ", ".join(item.passes) or "nothing", ", ".join(item.fails) or "nothing")
    console.print(table)
    console.print(found.sentence, soft_wrap=True)
    if found.left_out:
        console.print(f"the time was up: {found.left_out} cases were not asked; --budget gives more", soft_wrap=True)
    told = {
        "problem": problem.name,
        "degenerate": found.degenerate,
        "sentence": found.sentence,
        "left_out": found.left_out,
    }
    impostors = [{"name": item.name, "passes": item.passes, "fails": item.fails} for item in found.impostors]
    write_json({**told, "impostors": impostors}, json_to)


def _language(path: Path) -> str:
    """What a candidate is written in. What cannot be read is told of when it is read whole."""
    file = path / "model.py" if path.is_dir() else path
    try:
        return language_of(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return "torch"


def read_candidate(path: Path, problem: Problem, device: str) -> Candidate:
    """The file, and those beside it that its text names or imports; or a folder with a model.py.

    Where the file imports `reference`, that is the problem's own text. Raises UsageError.
    """
    if path.is_dir():
        return candidate_of(path, device, "given")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the candidate {path}: {error}") from error
    if not re.search(r"^class\s+ModelNew\b|^ModelNew\s*=", text, re.MULTILINE):
        raise UsageError(f"{path} defines no class ModelNew, which is what a candidate is")
    sources = {"model.py": text}
    waiting = [(path, text)]
    while waiting:
        names = _names(*waiting.pop())
        for beside in sorted(path.parent.iterdir()):
            if beside != path and beside.name in names and beside.name not in sources and beside.is_file():
                sources[beside.name] = beside.read_text(encoding="utf-8")
                waiting.append((beside, sources[beside.name]))
        if "reference.py" in names:
            sources.setdefault("reference.py", problem.source)
    files = tuple(SourceFile(name, content) for name, content in sources.items())
    return Candidate("given", f"{language_of(text)}@{device}", files, label=path.stem)


def _names(path: Path, text: str) -> set[str]:
    """The files a Python text may mean: the modules it imports, and every string it holds. Raises UsageError."""
    if path.suffix != ".py":
        return set()
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UsageError(f"{path}, line {error.lineno}: {error.msg}") from error
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=modules):
                found |= {f"{module.name}.py" for module in modules}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(f"{module}.py")
            case ast.Constant(value=str(value)):
                found.add(value)
    return found


def _show(entry: Entry, console: Console) -> None:
    verdict = entry.verdict
    rest: list[str] = []
    findings = Table("check", "", "finding", box=None, padding=(0, 2), header_style="bold")
    for finding in verdict.findings:
        mark = (
            "ok"
            if finding.ok
            else {Weight.GATE: "FAILED", Weight.BAR: "cannot win", Weight.INFORM: "note"}[finding.weight]
        )
        first, *more = finding.message.splitlines() or [""]
        findings.add_row(finding.check, mark, first)
        rest += more
    console.print(findings)
    for line in rest:
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{verdict.status.value} at stage {verdict.stage.value}")
    if not verdict.native:
        console.print("hosted: this machine stood in for the device, so there is no time", soft_wrap=True)
    if verdict.timing:
        console.print(f"{verdict.timing.median_us:,.1f} us ({verdict.timing.method})", soft_wrap=True)
    for item in verdict.comparisons:
        console.print(f"{item.speedup:.2f}x over {item.baseline} ({item.low:.2f} to {item.high:.2f})", soft_wrap=True)
    if verdict.log and verdict.status is not Status.PASSED:
        console.print(verdict.log)
