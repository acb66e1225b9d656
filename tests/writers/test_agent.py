"""What the agent's writer does with a job when the judge itself fails."""

import asyncio
import time
from pathlib import Path

import pytest

from kernelwright.errors import SandboxError
from kernelwright.records import Brief, Candidate, Facts, Problem, Signature, SourceFile
from kernelwright.writers.agent import AgentWriter
from kernelwright.writers.tasks import JobState, TaskStore

PROBLEM = Problem("Net", "class Model: ...", Signature((), "{}"), origin="net.py:Net")
CANDIDATE = Candidate("me", "torch@null", (SourceFile("model.py", "class ModelNew: ..."),))


class FailingBench:
    """Raises what it was given, in every call."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def submit(self, candidate: Candidate) -> None:
        raise self.error

    async def trial(self, candidates: object, case: object) -> None:
        raise self.error


@pytest.mark.parametrize("kind", ["submit", "trial"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SandboxError("the sandbox could not be closed"), "the sandbox could not be closed"),
        (FileNotFoundError("no draft"), "the judge failed: FileNotFoundError: no draft"),
    ],
    ids=["ours", "unforeseen"],
)
def test_a_job_is_answered_whatever_the_judge_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: Exception, told: str
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    with TaskStore() as store:
        task = store.open_task(PROBLEM, "null", [])
        jobs = [store.ask(task, kind, f"a{number}", [CANDIDATE]) for number in range(2)]
        brief = Brief(PROBLEM, "null", Facts("null", "x", "x"))
        asyncio.run(AgentWriter(0.3, task=task).write(brief, FailingBench(error)))  # type: ignore[arg-type]
        ended = [store.job(job.id) for job in jobs]
    assert [(job.state, job.answer) for job in ended] == [(JobState.FAILED, told)] * 2


def test_jobs_are_taken_as_long_as_the_search_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stock compiler may be timed for many minutes; who thinks that long between two attempts is answered all the
    same."""
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    until = time.monotonic() + 1.0
    brief = Brief(PROBLEM, "null", Facts("null", "x", "x"))
    with TaskStore() as store:
        task = store.open_task(PROBLEM, "null", [])
        writer = AgentWriter(0.2, task=task, busy=lambda: time.monotonic() < until)

        async def late() -> str:
            await asyncio.sleep(0.6)
            return store.ask(task, "submit", "me", [CANDIDATE]).id

        async def both() -> str:
            bench = FailingBench(SandboxError("reached"))
            _, job = await asyncio.gather(writer.write(brief, bench), late())  # type: ignore[arg-type]
            return job

        assert store.job(asyncio.run(both())).answer == "reached"
    assert time.monotonic() >= until
