"""Records as rows: what is inserted, under which key, and how it is read back."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

from kernelwright.errors import ArchiveError, UnknownNameError, UsageError
from kernelwright.records import Candidate, Entry, Problem, Stage, Status, Verdict, decode, digest_bytes, encode

Record = TypeVar("Record")


def body(record: Any) -> str:
    """The record as JSON text."""
    return json.dumps(encode(record), sort_keys=True, separators=(",", ":"))


def form(record: Problem | Candidate) -> str:
    """64 hex digits that name the record with all that is told beside its content."""
    return digest_bytes(body(record).encode())


def decoded(kind: type[Record], text: str) -> Record:
    """The record that `body` was made from."""
    try:
        return decode(kind, json.loads(text))
    except (TypeError, ValueError, KeyError) as error:
        raise ArchiveError(f"the archive holds a {kind.__name__} that this release cannot read: {error}") from error


def insert_problem(rows: sqlite3.Connection, problem: Problem) -> None:
    rows.execute("INSERT OR IGNORE INTO problem (digest) VALUES (?)", (problem.digest,))
    region = problem.region
    rows.execute(
        "INSERT OR IGNORE INTO problem_form (form, digest, name, region, dynamic_region, body) VALUES (?,?,?,?,?,?)",
        (
            form(problem),
            problem.digest,
            problem.name,
            None if region is None else region.digest,
            None if region is None else region.dynamic_digest,
            body(problem),
        ),
    )


def insert_candidate(rows: sqlite3.Connection, candidate: Candidate) -> None:
    rows.execute("INSERT OR IGNORE INTO candidate (digest) VALUES (?)", (candidate.digest,))
    rows.execute(
        "INSERT OR IGNORE INTO candidate_form (form, digest, writer, baseline, body) VALUES (?,?,?,?,?)",
        (form(candidate), candidate.digest, candidate.writer, int(candidate.baseline), body(candidate)),
    )


def insert_verdict(rows: sqlite3.Connection, verdict: Verdict) -> None:
    compared = verdict.best_baseline
    # DO NOTHING and not OR IGNORE: only a verdict that is there already is passed over, any other refusal is told.
    rows.execute(
        "INSERT INTO verdict (digest, candidate, problem, target, device, environment, judge, status, decisive, "
        "confirmed, speedup, body) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (digest) DO NOTHING",
        (
            verdict.digest,
            verdict.candidate,
            verdict.problem,
            verdict.target,
            verdict.target.rpartition("@")[2],
            verdict.environment.digest,
            verdict.judge,
            verdict.status.value,
            int(verdict.status is not Status.PASSED or verdict.stage is Stage.CONFIRM),
            int(verdict.confirmed),
            None if compared is None else compared.speedup,
            body(verdict),
        ),
    )


def fastest(entries: Sequence[Entry]) -> Entry | None:
    """The confirmed entry that beats its best baseline by most, as `Archive.best` ranks them."""
    proven = [
        (compared.speedup, entry)
        for entry in entries
        if entry.verdict.confirmed
        and not entry.candidate.baseline
        and (compared := entry.verdict.best_baseline) is not None
        and compared.speedup > 1
    ]
    return max(proven, key=lambda pair: pair[0])[1] if proven else None


def only(kind: str, beginning: str, names: Sequence[str]) -> str:
    """The one name that begins with `beginning`. Raises UnknownNameError for none, UsageError for several."""
    found = [name for name in names if name.startswith(beginning)]
    if len(found) == 1 or beginning in found:
        return beginning if beginning in found else found[0]
    if found:
        shown = ", ".join(name[:20] for name in found[:4])
        raise UsageError(f"{len(found)} {kind}s begin with {beginning!r} ({shown}); give more of the name")
    raise UnknownNameError(kind, beginning, names)
