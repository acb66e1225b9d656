"""The archive: what was tried, what the judge said, and which runs it happened in.

Facts are appended and never changed. What names content is added once, whoever adds it again. A run that ends adds
a row of its own (`run_end`) rather than filling a column of an older row: "append-only" then has no exception, the
tables' triggers can hold everyone to it, and a run that was killed is simply a run without that row.
"""

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelwright.archive.blobs import Blobs, FolderBlobs, MemoryBlobs
from kernelwright.archive.rows import (
    body,
    decoded,
    fastest,
    form,
    insert_candidate,
    insert_problem,
    insert_verdict,
    only,
)
from kernelwright.archive.schema import connect
from kernelwright.errors import ArchiveError, UnknownNameError
from kernelwright.records import (
    Call,
    Candidate,
    Entry,
    Event,
    EventKind,
    Outcome,
    Problem,
    Trial,
    Verdict,
    digest,
    encode,
    strict,
)

# Connections of a parent process: a child must neither use nor close them (sqlite.org/howtocorrupt.html, 2.6).
_INHERITED: list[sqlite3.Connection] = []


@dataclass(frozen=True)
class Run:
    """A line of the list of runs."""

    id: str
    problem: str
    """The problem's digest."""
    name: str
    """The problem's name."""
    device: str
    started_at: float
    """Seconds since the epoch."""
    finished: bool
    best: str
    """The winner's digest; empty where there is none or the run did not finish."""
    reason: str


@dataclass(frozen=True)
class Miss:
    """A computation that was asked for and that no proven kernel serves."""

    problem: Problem
    device: str
    reason: str
    count: int


class Archive:
    """An SQLite file with its blobs in a folder `blobs` beside it; `path` None keeps all in memory.

    Safe to use from many threads and from many processes at once; after a fork the child opens its own connection.
    Raises ArchiveError for a file that is damaged, foreign, or of a newer version.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection = connect(path)
        self._connection.row_factory = sqlite3.Row
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._blobs: Blobs = MemoryBlobs() if path is None else FolderBlobs(path.parent / "blobs")

    def close(self) -> None:
        """Closes the connection; the archive is of no use afterwards."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # ---- content -------------------------------------------------------------------------------------------------

    def add_problem(self, problem: Problem) -> str:
        """Keeps the problem and returns its digest."""
        with self._write() as rows:
            insert_problem(rows, problem)
        return problem.digest

    def problem(self, name: str) -> Problem:
        """The problem of that digest as it was last told. Raises ArchiveError."""
        row = self._row("SELECT body FROM problem_form WHERE digest=? ORDER BY seq DESC LIMIT 1", name)
        if row is None:
            raise ArchiveError(f"the archive holds no problem {name[:12]}")
        return decoded(Problem, row["body"])

    def add_candidate(self, candidate: Candidate) -> str:
        """Keeps the candidate and returns its digest."""
        with self._write() as rows:
            insert_candidate(rows, candidate)
        return candidate.digest

    def candidate(self, name: str) -> Candidate:
        """The candidate of that digest as it was first told. Raises ArchiveError."""
        row = self._row("SELECT body FROM candidate_form WHERE digest=? ORDER BY seq LIMIT 1", name)
        if row is None:
            raise ArchiveError(f"the archive holds no candidate {name[:12]}")
        return decoded(Candidate, row["body"])

    def lineage(self, name: str) -> tuple[Candidate, ...]:
        """The ancestors of the candidate of that digest, nearest first, each once; those not kept are left out."""
        found: dict[str, Candidate] = {}
        ahead = list(self.candidate(name).parents)
        while ahead:
            parent = ahead.pop(0)
            if parent == name or parent in found or not self._holds("candidate", parent):
                continue
            found[parent] = self.candidate(parent)
            ahead += found[parent].parents
        return tuple(found.values())

    def put_blob(self, data: bytes | memoryview) -> str:
        """Keeps `data` and returns its sha256."""
        return self._blobs.put(data)

    def blob(self, sha: str) -> bytes:
        """The bytes of that sha256. Raises ArchiveError where they are absent or damaged."""
        return self._blobs.get(sha)

    # ---- verdicts ------------------------------------------------------------------------------------------------

    def add_verdict(self, verdict: Verdict, run: str | None = None, candidate: Candidate | None = None) -> str:
        """Keeps the verdict and returns its digest. Its problem and candidate have been added before.

        With `run` it is also an entry of that run, with the candidate as `candidate` tells it (None: as first told);
        a verdict of an earlier run becomes an entry in just that way.
        """
        with self._write() as rows:
            if candidate is not None:
                insert_candidate(rows, candidate)
            insert_verdict(rows, verdict)
            if run is not None:
                told = self.candidate(verdict.candidate) if candidate is None else candidate
                rows.execute(
                    "INSERT OR IGNORE INTO run_entry (run, candidate_form, verdict) VALUES (?,?,?)",
                    (run, form(told), verdict.digest),
                )
        return verdict.digest

    def verdicts(
        self, *, problem: str | None = None, target: str | None = None, candidate: str | None = None
    ) -> tuple[Verdict, ...]:
        """All verdicts that match what is given, oldest first. `target` may be a target or a device."""
        rows = self._rows(
            "SELECT body FROM verdict WHERE (:problem IS NULL OR problem=:problem) "
            "AND (:candidate IS NULL OR candidate=:candidate) "
            "AND (:target IS NULL OR target=:target OR device=:target) ORDER BY seq",
            {"problem": problem, "candidate": candidate, "target": target},
        )
        return tuple(decoded(Verdict, row["body"]) for row in rows)

    def verdict_for(self, candidate: str, problem: str, environment: str, judge: str) -> Verdict | None:
        """The verdict that counts for this pair, environment (digest) and judge: the newest decisive one.

        Decisive is what ended a confirmation and every rejection; where there is none, the newest of all counts. So a
        plain pass never displaces a confirmation, and a kernel that once failed is no longer proven.
        """
        row = self._row(
            "SELECT body FROM verdict WHERE candidate=? AND problem=? AND environment=? AND judge=? "
            "ORDER BY decisive DESC, seq DESC LIMIT 1",
            candidate,
            problem,
            environment,
            judge,
        )
        return None if row is None else decoded(Verdict, row["body"])

    def add_trial(self, problem: str, trial: Trial) -> str:
        """Keeps a tuner's trial for the problem of that digest and returns the trial's digest."""
        name = digest("trial", problem, trial)
        with self._write() as rows:
            rows.execute(
                "INSERT OR IGNORE INTO trial (digest, problem, candidate, body) VALUES (?,?,?,?)",
                (name, problem, trial.candidate, body(trial)),
            )
        return name

    def trials(self, *, problem: str | None = None, candidate: str | None = None) -> tuple[Trial, ...]:
        """All trials that match what is given, oldest first."""
        rows = self._rows(
            "SELECT body FROM trial WHERE (:problem IS NULL OR problem=:problem) "
            "AND (:candidate IS NULL OR candidate=:candidate) ORDER BY seq",
            {"problem": problem, "candidate": candidate},
        )
        return tuple(decoded(Trial, row["body"]) for row in rows)

    # ---- what is proven ------------------------------------------------------------------------------------------

    def best(
        self, problem: str, device: str, *, environment: str | None = None, judge: str | None = None
    ) -> Entry | None:
        """The proven winner for the problem of that digest; None where nothing beat the baselines.

        Times of different runs cannot be compared, so the rank is by speedup over the fastest baseline of the very
        run that measured it. Baselines cannot win. `environment` (digest) and `judge` narrow what is looked at.
        """
        winners = self._winners("problem=?", (problem,), device, environment, judge, limit=1)
        return winners[0][1] if winners else None

    def find_region(
        self, region: str, device: str, *, environment: str | None = None, judge: str | None = None
    ) -> tuple[tuple[Problem, Entry], ...]:
        """Proven winners for all problems whose region has that digest, fastest first."""
        where = "problem IN (SELECT digest FROM problem_form WHERE region=?)"
        found = self._winners(where, (region,), device, environment, judge)
        return tuple((self._problem_with("region=?", name, region), entry) for name, entry in found)

    def dynamic_regions(
        self, device: str, *, environment: str | None = None, judge: str | None = None
    ) -> tuple[tuple[Problem, Entry], ...]:
        """Proven winners for all problems whose sizes are open, fastest first."""
        where = "problem IN (SELECT digest FROM problem_form WHERE dynamic_region IS NOT NULL)"
        found = self._winners(where, (), device, environment, judge)
        return tuple((self._problem_with("dynamic_region IS NOT NULL", name), entry) for name, entry in found)

    def proven(
        self, device: str, *, environment: str | None = None, judge: str | None = None
    ) -> tuple[tuple[Problem, Entry], ...]:
        """Proven winners for all problems that have a region, fastest first."""
        where = "problem IN (SELECT digest FROM problem_form WHERE region IS NOT NULL)"
        found = self._winners(where, (), device, environment, judge)
        return tuple((self._problem_with("region IS NOT NULL", name), entry) for name, entry in found)

    def add_miss(self, problem: Problem, device: str, reason: str) -> None:
        """Notes that `problem` was asked for on `device` and not served, and why."""
        with self._write() as rows:
            insert_problem(rows, problem)
            rows.execute(
                "INSERT INTO miss (problem_form, device, reason, seen_at) VALUES (?,?,?,?)",
                (form(problem), device, reason, time.time()),
            )

    def misses(self, device: str | None = None) -> tuple[Miss, ...]:
        """What was asked for and not served, the most frequent first."""
        rows = self._rows(
            "SELECT body, device, reason, count(*) AS count FROM miss JOIN problem_form ON form=problem_form "
            "WHERE :device IS NULL OR device=:device "
            "GROUP BY digest, device, reason ORDER BY count DESC, min(miss.seq)",
            {"device": device},
        )
        return tuple(Miss(decoded(Problem, row["body"]), row["device"], row["reason"], row["count"]) for row in rows)

    # ---- runs ----------------------------------------------------------------------------------------------------

    def begin_run(self, problem: Problem, device: str, started_at: float | None = None) -> str:
        """Opens a run and returns its id, which sorts by time: "20261130-090512-3fa2c1"."""
        started_at = time.time() if started_at is None else started_at
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(started_at))}-{uuid.uuid4().hex[:6]}"
        with self._write() as rows:
            insert_problem(rows, problem)
            rows.execute(
                "INSERT INTO run (id, problem_form, device, started_at) VALUES (?,?,?,?)",
                (name, form(problem), device, started_at),
            )
        return name

    def record_event(self, run: str, event: Event) -> None:
        """Appends a moment to the run."""
        with self._write() as rows:
            rows.execute("INSERT INTO event (run, body) VALUES (?,?)", (run, body(event)))

    def events(self, run: str) -> tuple[Event, ...]:
        """The moments of a run in order."""
        rows = self._rows("SELECT body FROM event WHERE run=? ORDER BY seq", (run,))
        return tuple(decoded(Event, row["body"]) for row in rows)

    def add_call(self, run: str, call: Call) -> None:
        """Keeps a question to a language model with its answer, as part of the run."""
        with self._write() as rows:
            rows.execute("INSERT INTO call (run, member, body) VALUES (?,?,?)", (run, call.member, body(call)))

    def calls(self, run: str | None = None) -> tuple[tuple[str, Call], ...]:
        """(run, call) of that run, or of all runs, oldest first."""
        rows = self._rows("SELECT run, body FROM call WHERE :run IS NULL OR run=:run ORDER BY seq", {"run": run})
        return tuple((row["run"], decoded(Call, row["body"])) for row in rows)

    def finish_run(self, outcome: Outcome) -> None:
        """Ends the run `outcome.run`, keeping whatever of its entries is not kept yet. A run ends once."""
        with self._write() as rows:
            best = () if outcome.best is None else (outcome.best,)
            for entry in (*outcome.entries, *best):
                insert_candidate(rows, entry.candidate)
                insert_verdict(rows, entry.verdict)
            end = {
                "entries": [[form(entry.candidate), entry.verdict.digest] for entry in outcome.entries],
                "best": [[form(entry.candidate), entry.verdict.digest] for entry in best],
                "best_candidate": "".join(entry.candidate.digest for entry in best),
                "reason": outcome.reason,
                "skipped": encode(outcome.skipped),
                "spent_s": outcome.spent_s,
                "interrupted": outcome.interrupted,
                "done": list(outcome.done),
                "version": outcome.version,
            }
            rows.execute("INSERT OR IGNORE INTO run_end (run, body) VALUES (?,?)", (outcome.run, json.dumps(end)))

    def runs(self, *, problem: str | None = None, device: str | None = None) -> tuple[Run, ...]:
        """The runs that match what is given, newest first."""
        rows = self._rows(
            "SELECT id, digest, name, device, started_at, run_end.body AS end FROM run "
            "JOIN problem_form ON form=problem_form LEFT JOIN run_end ON run_end.run=id "
            "WHERE (:problem IS NULL OR digest=:problem) AND (:device IS NULL OR device=:device) "
            "ORDER BY started_at DESC, run.rowid DESC",
            {"problem": problem, "device": device},
        )
        runs = []
        for row in rows:
            end = json.loads(row["end"]) if row["end"] else {}
            runs.append(
                Run(
                    row["id"],
                    row["digest"],
                    row["name"],
                    row["device"],
                    row["started_at"],
                    finished=row["end"] is not None,
                    best=end.get("best_candidate", ""),
                    reason=end.get("reason", "the run did not finish"),
                )
            )
        return tuple(runs)

    def outcome(self, run: str) -> Outcome:
        """The run of that id as an Outcome; of one that was killed, what it had found. Raises UnknownNameError."""
        row = self._row(
            "SELECT problem_form.body, device, started_at, run_end.body AS end FROM run "
            "JOIN problem_form ON form=problem_form LEFT JOIN run_end ON run_end.run=id WHERE id=?",
            run,
        )
        if row is None:
            raise UnknownNameError("run", run, (item.id for item in self.runs()))
        problem = decoded(Problem, row["body"])
        if row["end"]:
            end = json.loads(row["end"])
            entries = tuple(self._entry(form, verdict) for form, verdict in end["entries"])
            best = self._entry(*end["best"][0]) if end["best"] else None
            skipped = tuple((writer, why) for writer, why in end["skipped"])
            rest = (end["reason"], skipped, row["started_at"], end["spent_s"], end["interrupted"])
            done = tuple(end.get("done", ())), end.get("version", "")
        else:
            entries = self._entries_of(run)
            best = fastest(entries)
            events = self.events(run)
            skipped = tuple((event.writer, event.message) for event in events if event.kind is EventKind.SKIPPED)
            spent_s = max((event.at_s for event in events), default=0.0)
            rest = ("the run did not finish; this is what it had found", skipped, row["started_at"], spent_s, True)
            done = (), ""
        return Outcome(run, problem, row["device"], entries, best, *rest, *done)

    # ---- names for people ----------------------------------------------------------------------------------------

    def find_run(self, beginning: str) -> str:
        """The id of the run that begins with `beginning`; "last" is the newest. Raises UnknownNameError, UsageError."""
        ids = [run.id for run in self.runs()]
        if beginning == "last" and ids:
            return ids[0]
        return only("run", beginning, ids)

    def find_candidate(self, beginning: str) -> str:
        """The digest of the candidate that begins with `beginning`. Raises UnknownNameError, UsageError."""
        return self._find_digest("candidate", beginning)

    def find_problem(self, beginning: str) -> str:
        """The digest of the problem that begins with `beginning`. Raises UnknownNameError, UsageError."""
        return self._find_digest("problem", beginning)

    def export_jsonl(self, path: Path) -> int:
        """Writes every record as one line `{"kind", "digest" or "run", "record"}` and returns how many there are."""
        queries = {
            "problem": "SELECT digest AS name, body FROM problem_form ORDER BY seq",
            "candidate": "SELECT digest AS name, body FROM candidate_form ORDER BY seq",
            "verdict": "SELECT digest AS name, body FROM verdict ORDER BY seq",
            "trial": "SELECT digest AS name, body FROM trial ORDER BY seq",
            "run": "SELECT id AS name, json_object('problem', digest, 'device', device, 'started_at', started_at) "
            "AS body FROM run JOIN problem_form ON form=problem_form ORDER BY started_at",
            "event": "SELECT run AS name, body FROM event ORDER BY seq",
            "call": "SELECT run AS name, body FROM call ORDER BY seq",
            "run_end": "SELECT run AS name, body FROM run_end ORDER BY run",
        }
        lines = 0
        draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
        with draft.open("w", encoding="utf-8") as file:
            for kind, query in queries.items():
                key = "run" if kind in ("run", "event", "call", "run_end") else "digest"
                for row in self._rows(query):
                    line = {"kind": kind, key: row["name"], "record": strict(json.loads(row["body"]))}
                    file.write(json.dumps(line) + "\n")
                    lines += 1
        draft.replace(path)
        return lines

    # ---- inside --------------------------------------------------------------------------------------------------

    def _winners(
        self,
        where: str,
        values: Sequence[str],
        device: str,
        environment: str | None,
        judge: str | None,
        limit: int = -1,
    ) -> list[tuple[str, Entry]]:
        """(problem digest, entry) of the confirmed candidates that beat their best baseline, fastest first."""
        rows = self._rows(
            "SELECT * FROM (SELECT seq, candidate, problem, confirmed, speedup, body, row_number() OVER "
            "(PARTITION BY candidate, problem ORDER BY decisive DESC, seq DESC) AS place FROM verdict "
            f"WHERE {where} AND device=? AND (? IS NULL OR environment=?) AND (? IS NULL OR judge=?)) "
            "WHERE place=1 AND confirmed AND speedup > 1 AND NOT EXISTS "
            "(SELECT 1 FROM candidate_form WHERE digest=candidate AND baseline) "
            "ORDER BY speedup DESC, seq DESC LIMIT ?",
            (*values, device, environment, environment, judge, judge, limit),
        )
        return [
            (row["problem"], Entry(self.candidate(row["candidate"]), decoded(Verdict, row["body"]))) for row in rows
        ]

    def _problem_with(self, where: str, name: str, *values: str) -> Problem:
        row = self._row(
            f"SELECT body FROM problem_form WHERE digest=? AND {where} ORDER BY seq DESC LIMIT 1", name, *values
        )
        assert row is not None, "a winner's problem was selected by this very condition"
        return decoded(Problem, row["body"])

    def _entry(self, form: str, verdict: str) -> Entry:
        candidate = self._row("SELECT body FROM candidate_form WHERE form=?", form)
        judged = self._row("SELECT body FROM verdict WHERE digest=?", verdict)
        if candidate is None or judged is None:
            raise ArchiveError(f"the archive {self.path} is damaged: an entry of a run lacks its candidate or verdict")
        return Entry(decoded(Candidate, candidate["body"]), decoded(Verdict, judged["body"]))

    def _entries_of(self, run: str) -> tuple[Entry, ...]:
        """Each candidate of the run with the newest verdict it was given there, in order of first appearance."""
        rows = self._rows("SELECT candidate_form, verdict FROM run_entry WHERE run=? ORDER BY seq", (run,))
        newest = {row["candidate_form"]: row["verdict"] for row in rows}
        return tuple(self._entry(form, verdict) for form, verdict in newest.items())

    def _find_digest(self, table: str, beginning: str) -> str:
        return only(table, beginning, [row["digest"] for row in self._rows(f"SELECT digest FROM {table}")])

    def _holds(self, table: str, name: str) -> bool:
        return self._row(f"SELECT 1 FROM {table} WHERE digest=?", name) is not None

    def _rows(self, query: str, values: Any = ()) -> list[sqlite3.Row]:
        with self._own() as connection:
            return connection.execute(query, values).fetchall()

    def _row(self, query: str, *values: Any) -> sqlite3.Row | None:
        with self._own() as connection:
            return connection.execute(query, values).fetchone()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """A transaction: all of the block, or nothing of it."""
        with self._own() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _own(self) -> Iterator[sqlite3.Connection]:
        """This process's connection, for one thread at a time; what SQLite raises becomes an ArchiveError."""
        if self._pid != os.getpid():
            self._reopen()
        with self._lock:
            try:
                yield self._connection
            except sqlite3.IntegrityError as error:
                raise ArchiveError(
                    f"the archive refuses a row ({error}): a problem or candidate is added before its verdicts, "
                    "a run is begun before its events, and no row is changed"
                ) from error
            except sqlite3.Error as error:
                raise ArchiveError(f"the archive {self.path or 'in memory'} failed: {error}") from error

    def _reopen(self) -> None:
        self._lock = threading.RLock()  # the inherited one may be held by a thread that is not here
        if self.path is not None:
            _INHERITED.append(self._connection)
            self._connection = connect(self.path)
            self._connection.row_factory = sqlite3.Row
        self._pid = os.getpid()
