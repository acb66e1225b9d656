"""What coding agents may ask for. The command line (agent.py) and the MCP server (mcp.py) say it in their own ways.

Every function returns a plain JSON document. Nothing here judges: a process of its own serves each task (`serve`),
starts when a job waits for it, and ends when no agent has asked for a while.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelwright.app.judge import read_candidate
from kernelwright.archive import Archive, open_archive
from kernelwright.errors import KernelwrightError, UnknownNameError, UsageError
from kernelwright.records import (
    Candidate,
    Entry,
    Event,
    EventKind,
    Outcome,
    Parent,
    Problem,
    Status,
    Verdict,
    Weight,
    strict,
)
from kernelwright.report import verdict_json
from kernelwright.search import select
from kernelwright.writers.agent import AgentWriter
from kernelwright.writers.tasks import Job, JobState, Task, TaskStore

WAIT_S = 20.0
"""How long a call may wait: clients of coding agents give up on tools after about a minute, some sooner."""

IDLE_S = 180.0
"""A server without jobs for this long confirms the best and ends; the next job starts another."""

SESSION_S = 12 * 3600.0
LOOK_S = 0.2
_LISTED = 12
_LAST_BYTES = 2000
_LONGEST_S = 1800.0


class Desk:
    """The store of tasks with the archives they belong to. Use as a context."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.store = self._stack.enter_context(TaskStore())
        self._archives: dict[str, Archive] = {}

    def __enter__(self) -> "Desk":
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def archive(self, place: str) -> Archive:
        if place not in self._archives:
            opened = self._stack.enter_context(open_archive(Path(place) if place else None))
            self._archives[place] = opened
        return self._archives[place]

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def list_tasks(self) -> dict[str, Any]:
        """The tasks that are open, newest first."""
        return {
            "tasks": [
                {"task": task.id, "problem": task.name, "origin": task.origin, "target": task.device}
                for task in self.store.tasks()
            ]
        }

    def open_task(
        self, problem: Problem, device: str, baselines: Sequence[str], archive: Path | None = None
    ) -> dict[str, Any]:
        """Opens the task for a problem, or finds it, and says what is asked."""
        task = self.store.open_task(problem, device, baselines, archive)
        self.archive(task.archive).add_problem(problem)
        return self.task(task.id)

    def task(self, name: str) -> dict[str, Any]:
        """What is asked, and how it stands."""
        task = self.store.task(name)
        return {
            "task": task.id,
            "problem": task.name,
            "origin": task.origin,
            "target": task.device,
            "brief": self._brief(task),
            "jobs": len(self.store.jobs(task)),
            "best": self.best(task.id)["best"],
        }

    def _brief(self, task: Task) -> str:
        from kernelwright.context import brief

        archive = self.archive(task.archive)
        parents = select.parents(history(archive, task.problem, task.device))
        return brief(archive.problem(task.problem), task.device, facts(task.device), parents).text()

    # ---- candidates ----------------------------------------------------------------------------------------------

    def read(self, task_name: str, path: Path, agent: str, note: str = "") -> Candidate:
        """The candidate that a file or a folder with a model.py is. Raises UsageError."""
        task = self.store.task(task_name)
        problem = self.archive(task.archive).problem(task.problem)
        model = path / "model.py" if path.is_dir() else path
        return replace(read_candidate(model, problem, task.device), writer=agent, label=path.stem, note=note)

    def of_texts(
        self, task_name: str, texts: Mapping[str, str], agent: str, label: str = "", note: str = ""
    ) -> Candidate:
        """The candidate of these files by name, among them `model.py`. Raises UsageError."""
        for name in texts:
            if not re.fullmatch(r"\w[\w.-]{0,99}", name):
                raise UsageError(f"a candidate's files have plain names, as model.py; {name[:100]!r} is none")
        if "model.py" not in texts:
            raise UsageError(f"a candidate needs a file model.py with class ModelNew; given: {', '.join(texts)}")
        with tempfile.TemporaryDirectory(prefix="kernelwright-agent-") as folder:
            for name, text in texts.items():
                try:
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                except UnicodeEncodeError as error:
                    raise UsageError(f"{name} is no text: {error}") from None
            candidate = self.read(task_name, Path(folder) / "model.py", agent, note)
        return replace(candidate, label=label)

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def hand_in(
        self, task_name: str, kind: str, candidates: Sequence[Candidate], agent: str, wait_s: float = WAIT_S
    ) -> dict[str, Any]:
        """A job for the task's server: "submit" or "trial". See `result`."""
        task = self.store.task(task_name)
        job = self.store.ask(task, kind, agent, candidates)
        if kind == "submit" and (known := self._known(task, candidates[0])):
            self.store.end(job, known.digest)
        return self.result(job.id, wait_s)

    def _known(self, task: Task, candidate: Candidate) -> Verdict | None:
        """The verdict that stands already, so that no server need be asked."""
        verdicts = [
            verdict
            for verdict in self.archive(task.archive).verdicts(problem=task.problem, target=task.device)
            if verdict.candidate == candidate.digest
        ]
        if not verdicts:
            return None
        from kernelwright.judge import JUDGE_VERSION
        from kernelwright.targets import environment

        here = environment(task.device).digest
        standing = [item for item in verdicts if item.judge == JUDGE_VERSION and item.environment.digest == here]
        known = next(iter(select.counting(standing)), None)
        return known if known and select.final(known) else None

    def confirm(self, task_name: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """A job that judges the best so far again, on fresh seeds. See `result`."""
        task = self.store.task(task_name)
        ranked = select.ranked(history(self.archive(task.archive), task.problem, task.device))
        best = [entry.candidate for entry in ranked[:1]]
        return self.result(self.store.ask(task, "confirm", "agent", best).id, wait_s)

    def result(self, name: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """The job's answer, or `"status": "running"` if it has none within `wait_s` (at most WAIT_S) seconds."""
        until = time.monotonic() + max(0.0, min(wait_s, WAIT_S))
        looked = 0.0
        while not (job := self.store.job(name)).over:
            if time.monotonic() - looked > 1.0:
                start_server(self.store, self.store.task(job.task))
                looked = time.monotonic()
            if time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        return self._answer(job)

    def _answer(self, job: Job) -> dict[str, Any]:
        task = self.store.task(job.task)
        told: dict[str, Any] = {"job": job.id, "task": task.id, "kind": job.kind, "agent": job.agent}
        if not job.over:
            log = self.store.folder / f"{task.id}.log"
            told["status"] = "running"
            told["begun"] = job.state is JobState.RUNNING
            told["ahead"] = self.store.ahead(job)
            told["asked_s"] = round(time.time() - job.asked_at, 1)
            told["last"] = _last_line(log)
            told["log"] = str(log)
            return told
        if job.state is JobState.FAILED:
            return told | {"status": "failed", "message": job.answer}
        archive = self.archive(task.archive)
        if job.kind == "trial":
            titles = {candidate.digest: candidate for candidate in job.candidates}
            trials = [
                {
                    "candidate": trial["candidate"],
                    "label": titles[trial["candidate"]].label,
                    "status": trial["status"],
                    "median_us": trial["median_us"],
                    "message": trial["message"],
                }
                for trial in json.loads(job.answer)
            ]
            return told | {
                "status": "done",
                "trials": trials,
                "baselines_us": _baselines(history(archive, task.problem, task.device)),
            }
        verdict = next(item for item in archive.verdicts(problem=task.problem) if item.digest == job.answer)
        entry = Entry(archive.candidate(verdict.candidate), verdict)
        return told | {"status": "done", "verdict": self._entry_json(task, entry)}

    def _entry_json(self, task: Task, entry: Entry) -> dict[str, Any]:
        """`entry_json` beside all that is timed of the task's baselines, and which are not yet."""
        rivals = select.baselines(history(self.archive(task.archive), task.problem, task.device))
        archive = self.archive(task.archive)
        beside = {archive.candidate(item.candidate).writer for item in entry.verdict.comparisons}
        waiting = set(task.baselines) - {rival.candidate.writer for rival in rivals} - beside
        return entry_json(entry, rivals) | {"baselines_not_timed": sorted(waiting) if entry.verdict.native else []}

    # ---- what is known -------------------------------------------------------------------------------------------

    def best(self, name: str) -> dict[str, Any]:
        """The best candidate so far with its text, the fastest others, and the baselines."""
        task = self.store.task(name)
        archive = self.archive(task.archive)
        entries = history(archive, task.problem, task.device)
        ranked = select.ranked(entries)
        hosted = [entry for entry in entries if _hosted(entry)]
        first = next(iter(ranked or hosted), None)
        return {
            "task": task.id,
            "best": None if first is None else self._entry_json(task, first) | {"sources": _sources(first.candidate)},
            "baselines_us": _baselines(entries),
            "others": [_line(entry, select.baselines(entries)) for entry in (ranked or hosted)[1:_LISTED]],
            "rejected": sum(not entry.candidate.baseline and not _stands(entry) for entry in entries),
            "waiting": [f"{job.id}: {job.kind} by {job.agent}" for job in self.store.jobs(task) if not job.over],
        }

    def candidates(self, name: str, words: str = "", status: str = "") -> dict[str, Any]:
        """Candidates of the task whose writer, label, note or text holds all of `words`, newest first."""
        if status and status.upper() not in Status.__members__:
            raise UnknownNameError("status", status, [member.lower() for member in Status.__members__])
        task = self.store.task(name)
        archive = self.archive(task.archive)
        wanted = words.lower().split()
        found = []
        entries = history(archive, task.problem, task.device)
        for entry in reversed(entries):
            candidate = entry.candidate
            held = " ".join([candidate.title, candidate.note, *(file.text for file in candidate.sources)]).lower()
            if all(word in held for word in wanted) and status.upper() in ("", entry.verdict.status.value):
                found.append(_line(entry, select.baselines(entries)))
        return {"task": task.id, "candidates": found[: 4 * _LISTED], "found": len(found)}

    def profile(self, beginning: str) -> dict[str, Any]:
        """What is known of where a candidate's time goes. `beginning`: of a candidate's digest, or a job's id."""
        archive, verdict = self._verdict(beginning)
        candidate = archive.candidate(verdict.candidate)
        from kernelwright.context import profile_text

        return {
            "candidate": candidate.digest,
            "title": candidate.title,
            "status": verdict.status.value,
            "ledger": [{"kernel": name, "share": share} for name, share in verdict.ledger],
            "text": profile_text(Parent(candidate, verdict), facts(verdict.target.rpartition("@")[2])),
            "sources": _sources(candidate),
        }

    def _verdict(self, beginning: str) -> tuple[Archive, Verdict]:
        if beginning.startswith("j"):
            job = self.store.job(beginning)
            if not job.candidates:
                raise UsageError(f"job {job.id} asked for a confirmation and has no candidate of its own")
            beginning, places = job.candidates[0].digest, [self.store.task(job.task).archive]
        else:
            places = list(dict.fromkeys(["", *(task.archive for task in self.store.tasks())]))
        missing: UnknownNameError | None = None
        for place in places:
            archive = self.archive(place)
            try:
                verdicts = archive.verdicts(candidate=archive.find_candidate(beginning))
            except UnknownNameError as error:
                missing = error
                continue
            if verdicts:
                told = [verdict for verdict in verdicts if verdict.ledger]
                return archive, (told or list(verdicts))[-1]
        raise missing or UsageError(f"candidate {beginning} has no verdict yet")


# ---- the server of a task ------------------------------------------------------------------------------------------


def start_server(store: TaskStore, task: Task) -> None:
    """Starts the process that serves the task, unless one does."""
    lock = store.lock(task)
    if lock is None:
        return
    try:
        with (store.folder / f"{task.id}.log").open("a") as log:
            serve_it = ["agent", "serve", task.id, "--lock", str(lock), "--idle", str(IDLE_S)]
            subprocess.Popen(
                [sys.executable, "-P", "-m", "kernelwright.app.cli", *serve_it],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
                env=os.environ | {"KERNELWRIGHT_HOME": str(store.folder.parent)},
            )
    finally:
        os.close(lock)


def serve(name: str, lock: int | None = None, idle_s: float = IDLE_S) -> str:
    """Serves the task until no job has come for `idle_s` seconds or one asked for confirmation; then confirms the
    best. Returns how it ended, in one sentence."""
    from kernelwright.search import choose_writers

    if lock is not None:
        os.set_inheritable(lock, False)
    with Desk() as desk, desk.store.serving(task := desk.store.task(name), lock):
        archive = desk.archive(task.archive)
        watched = _Watched()
        writer = AgentWriter(idle_s, task=task, busy=watched.busy)
        stock = [item for item in choose_writers(task.baselines) if item.baseline]
        best, reason = "", ""
        try:
            outcome = _search(archive.problem(task.problem), task.device, [*stock, writer], archive, watched)
            best, reason = outcome.best.verdict.digest if outcome.best else "", outcome.reason
        except Exception as error:  # whoever waits is told, whatever it was
            reason = str(error) if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {error}"
        for job in writer.confirming:
            desk.store.end(job, best or reason, failed=not best)
        if not writer.served:  # there is no judge, or it did not accept the reference: waiting would be in vain
            for job in desk.store.jobs(task):
                desk.store.end(job, reason, failed=True)
    return reason


def _search(problem: Problem, device: str, writers: Sequence[Any], archive: Archive, watched: "_Watched") -> Outcome:
    from kernelwright.judge import JUDGE_VERSION, Judge
    from kernelwright.search.bench import Court
    from kernelwright.search.conduct import Plan, conduct
    from kernelwright.targets import environment

    plan = Plan(problem, device, tuple(writers), SESSION_S, attempts=1_000_000)
    with Judge(problem, device) as judge:
        return conduct(plan, Court(judge, environment(device), JUDGE_VERSION), archive, watched)


class _Watched:
    """Writes what happens to the file that a running job's answer names, and knows what is before the judge."""

    def __init__(self) -> None:
        self._judging: set[str] = set()
        self._heard = time.monotonic()

    def busy(self) -> bool:
        """Whether the judge is at work. One of whom nothing is heard for so long has failed."""
        return bool(self._judging) and time.monotonic() - self._heard < _LONGEST_S

    def __call__(self, event: Event, _: Entry | None) -> None:
        self._heard = time.monotonic()
        if event.kind is EventKind.SUBMITTED:
            self._judging.add(event.candidate)
        elif event.kind is EventKind.JUDGED:
            self._judging.discard(event.candidate)
        print(f"{event.at_s:7.1f} s  {event.kind.value}  {event.writer}  {event.message}".rstrip(), flush=True)


def _last_line(log: Path) -> str:
    """Of the server's log: what the judge was last told to do, or has done."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _LAST_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return " ".join(lines[-1].split()) if lines else ""


# ---- documents -----------------------------------------------------------------------------------------------------


def facts(device: str) -> Any:
    """The device's facts; for one that is not here what its name tells."""
    from kernelwright.plugins import members
    from kernelwright.records import Facts

    for kind in members("targets", "Target").values():
        target = kind()
        if target.device == device and target.missing() is None:
            return target.facts()
    return Facts(device, "not on this machine", "unknown")


def entry_json(entry: Entry, rivals: Sequence[Entry]) -> dict[str, Any]:
    """A verdict as an agent needs it: what failed, what was noted, times. Samples and satisfied checks are left out.
    The speedup is over the fastest of the baselines `rivals`, also where that was timed later, and undecided where 1
    lies in its interval."""
    candidate, verdict = entry.candidate, entry.verdict
    told = verdict_json(verdict)
    if told["timing"]:
        told["timing"] = {key: told["timing"][key] for key in ("median_us", "quartiles_us", "method")}
    told["findings"] = [
        {"check": finding.check, "weight": finding.weight.value, "message": finding.message}
        for finding in verdict.findings
        if not finding.ok
    ]
    return strict(
        {
            "candidate": candidate.digest,
            "writer": candidate.writer,
            "label": candidate.label,
            "target": candidate.target,
            "reason": verdict.reason,
            "note": candidate.note,
            **_speedup(entry, rivals),
            "checks_passed": sum(finding.ok for finding in verdict.findings),
            "native": verdict.native,
            **told,
        }
    )


def _speedup(entry: Entry, rivals: Sequence[Entry]) -> dict[str, Any]:
    """Over the fastest baseline: which that is, and whether the two were timed by turns."""
    if not entry.verdict.timing or not rivals:
        return {"speedup": None, "speedup_over": None, "timed_by_turns": None, "decided": None}
    over = min(rivals, key=lambda rival: select.lead(entry.verdict, [rival]))
    speedup, low = select.lead(entry.verdict, [over])
    beside = next((item for item in entry.verdict.comparisons if item.candidate == over.candidate.digest), None)
    return {
        "speedup": speedup,
        "speedup_over": over.candidate.title,
        "timed_by_turns": beside is not None,
        "decided": low > 1 or (beside is not None and beside.high < 1),
    }


def _line(entry: Entry, rivals: Sequence[Entry]) -> dict[str, Any]:
    verdict = entry.verdict
    return {
        "candidate": entry.candidate.digest[:12],
        "title": entry.candidate.title,
        "target": entry.candidate.target,
        "status": verdict.status.value,
        "confirmed": verdict.confirmed,
        "median_us": None if verdict.timing is None else verdict.timing.median_us,
        **_speedup(entry, rivals),
        "reason": verdict.reason,
    }


def history(archive: Archive, problem: str, device: str) -> list[Entry]:
    """Each candidate for the problem (digest) on the device, with the verdict that counts."""
    verdicts = archive.verdicts(problem=problem, target=device)
    return [Entry(archive.candidate(verdict.candidate), verdict) for verdict in select.counting(verdicts)]


def _baselines(entries: Sequence[Entry]) -> dict[str, float]:
    return {
        entry.candidate.title: entry.verdict.timing.median_us
        for entry in select.baselines(entries)
        if entry.verdict.timing
    }


def _sources(candidate: Candidate) -> dict[str, str]:
    return {file.path: file.text for file in candidate.sources if file.path != "reference.py"}


def _stands(entry: Entry) -> bool:
    return entry.verdict.status.value == "PASSED" and not entry.verdict.failed(Weight.BAR)


def _hosted(entry: Entry) -> bool:
    """Whether it passed where a host stands in for the device, so that it has no time."""
    return _stands(entry) and not entry.verdict.native and not entry.candidate.baseline
