"""The archive: what is kept, what counts, and that neither crowds nor kills nor old files lose a row."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kernelwright.archive import Archive
from kernelwright.errors import ArchiveError, UnknownNameError, UsageError
from kernelwright.records import (
    Call,
    Candidate,
    Comparison,
    Entry,
    Environment,
    Event,
    EventKind,
    Facts,
    Finding,
    Numerics,
    Outcome,
    Problem,
    Range,
    Region,
    RegionInput,
    Signature,
    SourceFile,
    Stage,
    Status,
    TensorSpec,
    Timing,
    Trial,
    Verdict,
    Weight,
)

ENVIRONMENT = Environment(Facts("cpu", "a chip", "x86_64", ("avx2",), 2), "Linux", "3.11", "2.13.0", 2)
PROBLEM = Problem(
    "softmax",
    "class Model: ...",
    Signature((TensorSpec("x", "float32", (Range(1, 8, 4), 512)),), '{"args": [{"tensor": 0}], "kwargs": {}}'),
    Numerics(),
    Region("softmax(n0)", "softmax(n0, d0)", (RegionInput("argument", "0"),)),
)
EAGER = Candidate("eager", "torch@cpu", (SourceFile("model.py", "from reference import Model"),), baseline=True)


def candidate(text: str, **changes) -> Candidate:
    return Candidate("template", "cpp@cpu", (SourceFile("model.py", text),), **changes)


def verdict(of: Candidate, speedup: float | None = 2.0, stage: Stage = Stage.CONFIRM, at: float = 1.0, **changes):
    comparisons = ()
    if speedup is not None:
        comparisons = (
            Comparison("eager", EAGER.digest, Timing((10.0,), "slope"), speedup, speedup - 0.1, speedup + 1),
        )
    fields = {
        "candidate": of.digest,
        "problem": PROBLEM.digest,
        "target": of.target,
        "status": Status.PASSED,
        "stage": stage,
        "environment": ENVIRONMENT,
        "timing": Timing((5.0, 6.0), "slope"),
        "comparisons": comparisons,
        "judge": "1",
        "decided_at": at,
    }
    return Verdict(**{**fields, **changes})


def rejected(of: Candidate, at: float = 9.0, **changes) -> Verdict:
    finding = Finding("values", False, "row 3 is off by 0.5")
    return verdict(
        of, None, at=at, status=Status.WRONG_VALUES, timing=None, findings=(finding,), stage=Stage.VERIFY, **changes
    )


@pytest.fixture(params=["file", "memory"])
def archive(request, tmp_path: Path):
    with Archive(tmp_path / "archive.sqlite" if request.param == "file" else None) as opened:
        opened.add_problem(PROBLEM)
        opened.add_candidate(EAGER)
        yield opened


# ---- content ---------------------------------------------------------------------------------------------------------


def test_records_come_back_as_they_were(archive: Archive) -> None:
    kernel = candidate("kernel \ud800 \x00 </script> ünïcode", parents=(EAGER.digest,), note="n", label="vec=16")
    said = verdict(kernel, findings=(Finding("h", True, "ok", numbers=(("x", float("inf")),)),), ledger=(("k", 0.9),))
    archive.add_candidate(kernel)
    archive.add_verdict(said)
    assert archive.problem(PROBLEM.digest) == PROBLEM
    assert archive.candidate(kernel.digest) == kernel
    assert archive.verdicts(problem=PROBLEM.digest) == (said,)
    assert archive.verdicts(target="cpu", candidate=kernel.digest) == (said,)
    assert archive.verdicts(target="torch@cpu") == ()


def test_the_same_again_is_no_new_row(archive: Archive, tmp_path: Path) -> None:
    kernel = candidate("k")
    for _ in range(3):
        archive.add_problem(PROBLEM)
        archive.add_candidate(kernel)
        archive.add_verdict(verdict(kernel))
        archive.add_trial(PROBLEM.digest, Trial("v1", "c", Status.PASSED, 3.0))
    assert archive.export_jsonl(tmp_path / "out.jsonl") == 5  # problem, eager, kernel, verdict, trial


def test_content_told_twice_keeps_both_tellings(archive: Archive) -> None:
    first, second = candidate("k", note="by hand"), candidate("k", note="by machine")
    moved = replace(PROBLEM, weights="ab" * 32)
    assert archive.add_candidate(first) == archive.add_candidate(second)
    assert archive.candidate(first.digest) == first
    assert archive.add_problem(moved) == PROBLEM.digest
    assert archive.problem(PROBLEM.digest).weights == moved.weights


def test_rows_of_unknown_content_are_refused(archive: Archive) -> None:
    with pytest.raises(ArchiveError, match="added before"):
        archive.add_verdict(verdict(candidate("never added")))
    with pytest.raises(ArchiveError, match="added before"):
        archive.record_event("no such run", Event(EventKind.NOTE, 0.0))
    with pytest.raises(ArchiveError, match="no candidate"):
        archive.candidate("f" * 64)


@pytest.mark.parametrize("table", ["problem_form", "candidate_form"])
def test_facts_cannot_be_changed(archive: Archive, table: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        archive._connection.execute(f"UPDATE {table} SET body='{{}}'")


def test_every_table_is_held_to_append_only(archive: Archive) -> None:
    count = "SELECT count(*) FROM sqlite_schema WHERE type=?"
    tables, triggers = (archive._connection.execute(count, (kind,)).fetchone()[0] for kind in ("table", "trigger"))
    assert tables == triggers > 8


def test_lineage_is_nearest_first_and_bears_circles(archive: Archive) -> None:
    root = candidate("root")
    left, right = candidate("left", parents=(root.digest,)), candidate("right", parents=(root.digest, "f" * 64))
    child = candidate("child", parents=(left.digest, right.digest))
    circle = candidate("root", parents=(child.digest,), note="a later telling closes a circle")
    for item in (root, left, right, child, circle):
        archive.add_candidate(item)
    assert archive.lineage(child.digest) == (left, right, root)
    assert archive.lineage(root.digest) == ()


# ---- what counts -----------------------------------------------------------------------------------------------------


def test_the_newest_decisive_verdict_counts(archive: Archive) -> None:
    kernel = candidate("k")
    archive.add_candidate(kernel)
    key = (kernel.digest, PROBLEM.digest, ENVIRONMENT.digest, "1")
    assert archive.verdict_for(*key) is None
    confirmed = verdict(kernel, at=2.0)
    for said in (verdict(kernel, stage=Stage.TIME, at=1.0), confirmed, verdict(kernel, stage=Stage.TIME, at=3.0)):
        archive.add_verdict(said)
    assert archive.verdict_for(*key) == confirmed
    assert archive.best(PROBLEM.digest, "cpu") == Entry(kernel, confirmed)
    archive.add_verdict(rejected(kernel))
    assert archive.verdict_for(*key) == rejected(kernel)
    assert archive.best(PROBLEM.digest, "cpu") is None
    assert archive.verdict_for(kernel.digest, PROBLEM.digest, ENVIRONMENT.digest, "2") is None


def test_best_ranks_by_speedup_within_its_own_run(archive: Archive) -> None:
    quick_day, slow_day = candidate("a"), candidate("b")
    barred = Finding("nan_probe", False, "a NaN is lost", Weight.BAR)
    said = [
        verdict(quick_day, 1.5, timing=Timing((1.0,), "slope")),
        verdict(slow_day, 2.5, timing=Timing((9.0,), "slope")),
        verdict(candidate("slower than eager"), 0.8),
        verdict(candidate("not confirmed"), 9.0, stage=Stage.TIME),
        verdict(candidate("barred"), 9.0, findings=(barred,)),
        verdict(candidate("nothing to compare with"), None),
        verdict(EAGER, 9.0),
    ]
    names = ["a", "b", "slower than eager", "not confirmed", "barred", "nothing to compare with"]
    for name in names:
        archive.add_candidate(candidate(name))
    for item in said:
        archive.add_verdict(item)
    best = archive.best(PROBLEM.digest, "cpu")
    assert best is not None and best.candidate == slow_day
    assert archive.best(PROBLEM.digest, "cuda") is None
    assert archive.best(PROBLEM.digest, "cpu", judge="2") is None
    assert archive.best(PROBLEM.digest, "cpu", environment=ENVIRONMENT.digest) == best
    assert [entry.candidate for _, entry in archive.find_region(PROBLEM.region.digest, "cpu")] == [slow_day, quick_day]


def test_regions_are_found_under_both_digests(archive: Archive) -> None:
    kernel = candidate("k")
    fixed = replace(PROBLEM, name="fixed", source="other", region=Region("relu(n0)", None, ()))
    archive.add_candidate(kernel)
    archive.add_problem(fixed)
    archive.add_verdict(verdict(kernel, 3.0))
    archive.add_verdict(verdict(kernel, 4.0, problem=fixed.digest))
    assert archive.find_region(fixed.region.digest, "cpu")[0][0] == fixed
    assert archive.find_region("f" * 64, "cpu") == ()
    assert [problem for problem, _ in archive.dynamic_regions("cpu")] == [PROBLEM]
    assert archive.dynamic_regions("mps") == ()


def test_misses_are_counted(archive: Archive) -> None:
    rare = replace(PROBLEM, source="rare")
    for problem in (rare, PROBLEM, PROBLEM):
        archive.add_miss(problem, "cpu", "no kernel is proven")
    assert [(miss.problem, miss.count) for miss in archive.misses("cpu")] == [(PROBLEM, 2), (rare, 1)]
    assert archive.misses("mps") == ()


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_finished_run_is_rebuilt_as_it_was(archive: Archive) -> None:
    kernel = candidate("k", parents=(EAGER.digest,))
    run = archive.begin_run(PROBLEM, "cpu", started_at=1000.0)
    entries = (Entry(kernel, verdict(kernel)), Entry(EAGER, verdict(EAGER, 1.0)))
    outcome = Outcome(run, PROBLEM, "cpu", entries, entries[0], "2x", (("inductor", "no g++"),), 1000.0, 12.5)
    archive.finish_run(outcome)
    archive.finish_run(replace(outcome, reason="a run ends once"))
    assert archive.outcome(run) == outcome
    listed = archive.runs(problem=PROBLEM.digest, device="cpu")[0]
    assert (listed.id, listed.finished, listed.best, listed.reason) == (run, True, kernel.digest, "2x")


def test_a_killed_run_shows_what_it_had_found(archive: Archive) -> None:
    kernel, wrong, retold = candidate("k"), candidate("w"), replace(EAGER, writer="inductor", baseline=False)
    run = archive.begin_run(PROBLEM, "cpu", started_at=5.0)
    archive.record_event(run, Event(EventKind.SKIPPED, 0.1, "inductor", message="no g++"))
    archive.add_verdict(verdict(EAGER, 1.0), run, EAGER)
    archive.add_verdict(verdict(EAGER, 1.0), run, retold)
    archive.add_verdict(verdict(kernel, stage=Stage.TIME), run, kernel)
    archive.add_verdict(rejected(wrong), run, wrong)
    archive.add_verdict(verdict(kernel, 1.9), run, kernel)
    archive.record_event(run, Event(EventKind.JUDGED, 7.5, candidate=kernel.digest))
    outcome = archive.outcome(run)
    assert [entry.candidate for entry in outcome.entries] == [EAGER, retold, kernel, wrong]
    assert outcome.best == Entry(kernel, verdict(kernel, 1.9))
    assert outcome.skipped == (("inductor", "no g++"),)
    assert outcome.interrupted and outcome.spent_s == 7.5 and "did not finish" in outcome.reason
    assert not archive.runs()[0].finished


def test_runs_are_named_by_their_beginnings(archive: Archive) -> None:
    runs = [archive.begin_run(PROBLEM, "cpu", started_at=1000.0 + hour) for hour in (0, 7200)]
    assert [run.id for run in archive.runs()] == runs[::-1]
    assert archive.find_run(runs[0][:13]) == runs[0]
    assert archive.find_run("last") == runs[1]
    assert archive.find_problem(PROBLEM.digest[:6]) == PROBLEM.digest
    assert archive.find_candidate(EAGER.digest) == EAGER.digest
    with pytest.raises(UsageError, match="2 runs begin with '1970'"):
        archive.find_run("1970")
    with pytest.raises(UnknownNameError, match=r"no run is called .* did you mean"):
        archive.find_run(runs[0][:-1] + "-")
    with pytest.raises(UnknownNameError, match="no run is called 'x'"):
        archive.outcome("x")


def test_export_is_json_for_every_reader(archive: Archive, tmp_path: Path) -> None:
    kernel = candidate("k")
    run = archive.begin_run(PROBLEM, "cpu")
    archive.add_verdict(verdict(kernel, prepare_us=float("nan")), run, kernel)
    archive.record_event(run, Event(EventKind.NOTE, 1.0))
    archive.finish_run(Outcome(run, PROBLEM, "cpu", (), None, "r"))
    archive.export_jsonl(tmp_path / "out.jsonl")

    def refuse(word: str) -> None:
        raise ValueError(word)

    lines = [json.loads(line, parse_constant=refuse) for line in (tmp_path / "out.jsonl").open()]
    kinds = ["problem", "candidate", "candidate", "verdict", "run", "event", "run_end"]
    assert [line["kind"] for line in lines] == kinds
    assert lines[0]["record"]["name"] == "softmax" and lines[4]["run"] == run


# ---- blobs -----------------------------------------------------------------------------------------------------------


def test_blobs_are_named_by_their_content(archive: Archive) -> None:
    sha = archive.put_blob(b"weights")
    assert archive.put_blob(memoryview(b"weights")) == sha
    assert archive.blob(sha) == b"weights"
    with pytest.raises(ArchiveError, match="no blob"):
        archive.blob("f" * 64)


def test_a_damaged_blob_is_noticed(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive.sqlite")
    sha = archive.put_blob(b"weights")
    (tmp_path / "blobs" / sha[:2] / sha[2:]).write_bytes(b"weightz")
    with pytest.raises(ArchiveError, match="damaged"):
        archive.blob(sha)
    with pytest.raises(ArchiveError, match="does not name a blob"):
        archive.blob("../../etc/passwd")


def test_drafts_of_killed_writers_are_swept(tmp_path: Path) -> None:
    drafts = tmp_path / "blobs" / "drafts"
    drafts.mkdir(parents=True)
    for name, age_s in (("old", 10_000), ("young", 10)):
        (drafts / name).write_bytes(b"half")
        os.utime(drafts / name, (os.stat(drafts).st_mtime - age_s,) * 2)
    Archive(tmp_path / "archive.sqlite").close()
    assert [draft.name for draft in drafts.iterdir()] == ["young"]


# ---- crowds and kills ------------------------------------------------------------------------------------------------

CROWD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_archive import *
archive = Archive(Path(sys.argv[1]))
run = archive.begin_run(PROBLEM, "cpu")
for step in range(int(sys.argv[4])):
    kernel = candidate(f"{sys.argv[3]} {step}")
    archive.add_verdict(verdict(kernel), run, kernel)
    print(step, flush=True)
"""


def crowd(path: Path, name: str, steps: int) -> subprocess.Popen:
    command = [sys.executable, "-c", CROWD, str(path), str(Path(__file__).parent), name, str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_many_processes_write_at_once(tmp_path: Path) -> None:
    """They also all create the file at once."""
    path = tmp_path / "deep" / "archive.sqlite"
    writers = [crowd(path, name, 100) for name in "abcd"]
    for writer in writers:
        _, complaints = writer.communicate(timeout=120)
        assert writer.returncode == 0, complaints
    with Archive(path) as archive:
        assert len(archive.verdicts()) == 400
        assert {len(archive.outcome(run.id).entries) for run in archive.runs()} == {100}


def test_a_killed_writer_loses_at_most_what_was_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    writer = crowd(path, "a", 1_000_000)
    assert writer.stdout is not None
    for _ in range(50):
        told = int(writer.stdout.readline())
    writer.kill()
    rest = writer.stdout.read().split("\n")
    told = max([told, *(int(line) for line in rest[:-1])])
    writer.wait()
    with Archive(path) as archive:
        assert archive._connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        outcome = archive.outcome(archive.find_run("last"))
        assert len(outcome.entries) in (told + 1, told + 2)
        archive.add_verdict(rejected(EAGER), outcome.run, EAGER)


def test_many_threads_write_and_read_at_once(archive: Archive) -> None:
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for step in range(25):
                kernel = candidate(f"{name} {step}")
                archive.add_verdict(verdict(kernel), None, kernel)
                assert archive.candidate(kernel.digest) == kernel
                archive.best(PROBLEM.digest, "cpu")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(archive.verdicts()) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_on_its_own(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive.sqlite")
    archive.add_problem(PROBLEM)
    child = os.fork()
    if child == 0:
        try:
            archive.add_candidate(candidate("of the child"))
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert archive.candidate(candidate("of the child").digest)


def test_calls_to_models_are_kept_with_their_run(tmp_path: Path) -> None:
    call = Call("m:a", 1, "write/1", "asked", "answered", "stop", 10, 5, 0, True, 0.1, 1.0, 0.0, 0, "", 0.0)
    with Archive(tmp_path / "a.sqlite") as archive:
        run = archive.begin_run(PROBLEM, "null")
        archive.add_call(run, call)
        archive.add_call(run, replace(call, turn=2, cost_usd=None))
        assert [told.turn for _, told in archive.calls(run)] == [1, 2] and archive.calls(run)[0] == (run, call)
        assert archive.calls("another") == () and len(archive.calls()) == 2
        archive.export_jsonl(tmp_path / "all.jsonl")
        assert '"answered"' in (tmp_path / "all.jsonl").read_text()
