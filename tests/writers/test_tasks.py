"""What agents hand in, and who serves it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernelwright.errors import UnknownNameError, UsageError
from kernelwright.records import Candidate, Problem, Signature, SourceFile
from kernelwright.writers.tasks import BEGUN_AT_MOST, JobState, TaskStore

PROBLEM = Problem("My Net", "class Model: ...", Signature((), "{}"), origin="net.py:Net")
CANDIDATE = Candidate("me", "torch@null", (SourceFile("model.py", "class ModelNew: ..."),))


@pytest.fixture
def store(tmp_path: Path):
    with TaskStore(tmp_path) as made:
        yield made


def test_a_task_is_opened_once(store: TaskStore) -> None:
    task = store.open_task(PROBLEM, "null", ["eager"])
    assert store.open_task(PROBLEM, "null", ["eager"]) == task and store.tasks() == (task,)
    assert store.open_task(PROBLEM, "cpu", ["eager"]).id != task.id
    assert task.id.startswith("my-net-null-") and task.baselines == ("eager",) and task.problem == PROBLEM.digest
    assert store.task(task.id[:-3]) == task
    with pytest.raises(UsageError, match="2 tasks begin with 'my-net'"):
        store.task("my-net")
    with pytest.raises(UnknownNameError, match="no task is called"):
        store.task("other")


def test_jobs_in_order_each_taken_once(store: TaskStore) -> None:
    task = store.open_task(PROBLEM, "null", [])
    jobs = [store.ask(task, "submit", f"a{place}", [CANDIDATE]) for place in range(20)]
    taken: list[str] = []

    def take() -> None:
        with TaskStore(store.folder) as mine:
            while job := mine.take(task):
                taken.append(job.id)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(job.id for job in jobs)
    store.end(jobs[0], "abc")
    store.end(jobs[0], "another", failed=True)
    assert store.job(jobs[0].id).answer == "abc" and store.job(jobs[0].id).over
    assert store.job(jobs[1].id).state is JobState.RUNNING and store.job(jobs[1].id).candidates == (CANDIDATE,)


def test_what_a_dead_server_had_begun_is_taken_again_and_given_up_in_the_end(store: TaskStore) -> None:
    task = store.open_task(PROBLEM, "null", [])
    job = store.ask(task, "submit", "me", [CANDIDATE])
    for _ in range(BEGUN_AT_MOST):
        with store.serving(task):
            assert store.take(task)
    with store.serving(task):
        assert store.take(task) is None
    assert store.job(job.id).state is JobState.FAILED and "ended without an answer" in store.job(job.id).answer


def test_one_serves_and_a_lock_ends_with_its_process(store: TaskStore) -> None:
    task = store.open_task(PROBLEM, "null", [])
    lock = store.lock(task)
    assert lock is not None
    with TaskStore(store.folder) as other:
        assert other.lock(task) is None
        with pytest.raises(UsageError, match="is served by another process"), other.serving(task):
            pass
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock,)
        )
        os.close(lock)
        assert other.lock(task) is None, "the child holds it"
        child.kill()
        child.wait()
        again = other.lock(task)
        assert again is not None
        os.close(again)
