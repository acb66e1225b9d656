"""What coding agents are asked, and what they have handed in: a folder of the home, shared by all processes.

An agent's own process only writes here and reads here. One other process serves a task at a time: it holds the task's
lock and brings jobs to a judge. Whoever dies leaves nothing that the next does not put right: a lock ends with its
process, and a job whose server died is taken again.
"""

import fcntl
import json
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kernelwright.errors import UnknownNameError, UsageError
from kernelwright.home import home
from kernelwright.records import Candidate, Problem, decode, digest, encode

_BUSY_S = 30.0
_TABLES = """
CREATE TABLE IF NOT EXISTS task (
    id TEXT PRIMARY KEY, problem TEXT NOT NULL, name TEXT NOT NULL, origin TEXT NOT NULL, device TEXT NOT NULL,
    baselines TEXT NOT NULL, archive TEXT NOT NULL, opened_at REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS job (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, task TEXT NOT NULL REFERENCES task (id), kind TEXT NOT NULL,
    agent TEXT NOT NULL, candidates TEXT NOT NULL, state TEXT NOT NULL, begun INTEGER NOT NULL, answer TEXT NOT NULL,
    asked_at REAL NOT NULL, ended_at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS job_waiting ON job (task, state);
"""
BEGUN_AT_MOST = 2
"""A job whose server died this often is given up: it may be what they died of."""


class JobState(Enum):
    """How far a job is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """It has no answer; a candidate that was rejected is DONE."""


@dataclass(frozen=True)
class Task:
    """A problem on a device that agents may work at."""

    id: str
    problem: str
    """The problem's digest, in the archive."""
    name: str
    origin: str
    device: str
    baselines: tuple[str, ...]
    archive: str
    """Path of the archive; empty for the user's own."""
    opened_at: float = 0.0


@dataclass(frozen=True)
class Job:
    """Candidates that an agent handed in, and what came of it."""

    id: str
    task: str
    kind: str
    """"submit" (one candidate), "trial" (one or more), "confirm" (the best so far, if any)."""
    agent: str
    candidates: tuple[Candidate, ...]
    state: JobState
    answer: str = ""
    """DONE: a verdict's digest, or trials as JSON. FAILED: why, as a sentence."""
    asked_at: float = 0.0
    ended_at: float = 0.0

    @property
    def over(self) -> bool:
        return self.state in (JobState.DONE, JobState.FAILED)


class TaskStore:
    """See the top of this file. `folder` None: `tasks` in home()."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = home() / "tasks" if folder is None else folder
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "tasks.sqlite"
        try:
            self._rows = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            self._rows.row_factory = sqlite3.Row
            if not self._rows.execute("SELECT 1 FROM sqlite_schema WHERE name='job_waiting'").fetchone():
                self._rows.executescript(_TABLES)
        except sqlite3.Error as error:
            raise UsageError(f"the store of tasks {file} cannot be opened: {error}; delete it") from error

    def __enter__(self) -> "TaskStore":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._rows.close()

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def open_task(self, problem: Problem, device: str, baselines: Sequence[str], archive: Path | None = None) -> Task:
        """The task for this problem, made if needed. Opening it again, by whomever, gives the same."""
        place = "" if archive is None else str(archive.absolute())
        named = re.sub(r"[^\w]+", "-", problem.name).strip("-").lower()[:40] or "task"
        name = f"{named}-{device}-{digest('task', problem.digest, device, list(baselines), place)[:6]}"
        row = (name, problem.digest, problem.name, problem.origin, device, ",".join(baselines), place, time.time())
        self._rows.execute("INSERT OR IGNORE INTO task VALUES (?,?,?,?,?,?,?,?)", row)
        return self.task(name)

    def tasks(self) -> tuple[Task, ...]:
        """All of them, the newest first."""
        return tuple(_task(row) for row in self._rows.execute("SELECT * FROM task ORDER BY opened_at DESC"))

    def task(self, beginning: str) -> Task:
        """The task whose id begins so. Raises UnknownNameError, or UsageError where several do."""
        found = [task for task in self.tasks() if beginning and task.id.startswith(beginning)]
        exact = [task for task in found if task.id == beginning]
        if len(found) == 1 or exact:
            return (exact or found)[0]
        if found:
            raise UsageError(f"{len(found)} tasks begin with {beginning!r}: {', '.join(task.id for task in found[:5])}")
        raise UnknownNameError("task", beginning, [task.id for task in self.tasks()])

    # ---- jobs ----------------------------------------------------------------------------------------------------

    def ask(self, task: Task, kind: str, agent: str, candidates: Sequence[Candidate]) -> Job:
        """Hands candidates in."""
        name = f"j{uuid.uuid4().hex[:10]}"
        texts = json.dumps([encode(candidate) for candidate in candidates])
        self._rows.execute(
            "INSERT INTO job (id, task, kind, agent, candidates, state, begun, answer, asked_at, ended_at) "
            "VALUES (?,?,?,?,?,'waiting',0,'',?,0)",
            (name, task.id, kind, agent, texts, time.time()),
        )
        return self.job(name)

    def job(self, name: str) -> Job:
        """The job of that id. Raises UnknownNameError."""
        row = self._rows.execute("SELECT * FROM job WHERE id=?", (name,)).fetchone()
        if row is None:
            known = self._rows.execute("SELECT id FROM job ORDER BY seq DESC LIMIT 20").fetchall()
            raise UnknownNameError("job", name, [item["id"] for item in known])
        return _job(row)

    def jobs(self, task: Task) -> tuple[Job, ...]:
        """Those of a task, oldest first."""
        return tuple(_job(row) for row in self._rows.execute("SELECT * FROM job WHERE task=? ORDER BY seq", (task.id,)))

    def ahead(self, job: Job) -> int:
        """How many jobs of its task were handed in before it and are not over."""
        (count,) = self._rows.execute(
            "SELECT count(*) FROM job WHERE task=? AND state IN ('waiting', 'running') AND "
            "seq<(SELECT seq FROM job WHERE id=?)",
            (job.task, job.id),
        ).fetchone()
        return int(count)

    def take(self, task: Task) -> Job | None:
        """The next job that waits, which is running from now on."""
        row = self._rows.execute(
            "UPDATE job SET state='running', begun=begun+1 WHERE seq=(SELECT min(seq) FROM job WHERE task=? AND "
            "state='waiting') RETURNING *",
            (task.id,),
        ).fetchone()
        return None if row is None else _job(row)

    def end(self, job: Job, answer: str, failed: bool = False) -> None:
        """Answers a job; one that is over already keeps its answer."""
        state = (JobState.FAILED if failed else JobState.DONE).value
        self._rows.execute(
            "UPDATE job SET state=?, answer=?, ended_at=? WHERE id=? AND state IN ('waiting', 'running')",
            (state, answer, time.time(), job.id),
        )

    def put_back(self, task: Task) -> None:
        """What a server that died had begun waits again, or is given up. Only for whoever serves the task."""
        why = "the process that judged it ended without an answer, each time it was tried"
        self._rows.execute(
            "UPDATE job SET state='failed', answer=?, ended_at=? WHERE task=? AND state='running' AND begun>=?",
            (why, time.time(), task.id, BEGUN_AT_MOST),
        )
        self._rows.execute("UPDATE job SET state='waiting' WHERE task=? AND state='running'", (task.id,))

    # ---- who serves ----------------------------------------------------------------------------------------------

    def lock(self, task: Task) -> int | None:
        """The open file that says who serves the task; None while another has it. It ends with its last holder, so a
        child process can be handed it."""
        handle = os.open(self.folder / f"{task.id}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle

    @contextmanager
    def serving(self, task: Task, handle: int | None = None) -> Iterator[None]:
        """While this process serves the task. `handle`: the lock, where it was taken already. Raises UsageError."""
        handle = self.lock(task) if handle is None else handle
        if handle is None:
            raise UsageError(f"task {task.id} is served by another process already; wait until that has ended")
        try:
            self.put_back(task)
            yield
        finally:
            os.close(handle)  # the file stays: whoever waits for it has it open already


def _task(row: sqlite3.Row) -> Task:
    values = dict(row)
    return Task(**{**values, "baselines": tuple(name for name in values["baselines"].split(",") if name)})


def _job(row: sqlite3.Row) -> Job:
    return Job(
        row["id"],
        row["task"],
        row["kind"],
        row["agent"],
        tuple(decode(Candidate, item) for item in json.loads(row["candidates"])),
        JobState(row["state"]),
        row["answer"],
        row["asked_at"],
        row["ended_at"],
    )
