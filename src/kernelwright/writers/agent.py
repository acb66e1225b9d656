"""Brings to the bench what coding agents hand in through the task store, for as long as there are any."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.records import Brief, Candidate, Case, encode
from kernelwright.writers.tasks import Job, Task, TaskStore
from kernelwright.writers.writer import Bench

_LOOK_S = 0.1


class AgentWriter:
    """Serves coding agents: each job of a task goes to the bench, and its answer back to the store.

    Made by name alone it serves nobody: a search that waits for agents is one that was asked to.
    """

    name = "agent"
    baseline = False
    attempts = 1_000_000
    """Many agents, each as often as it likes."""

    def __init__(
        self,
        idle_s: float = 0.0,
        *,
        task: Task | None = None,
        archive: Path | None = None,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """`idle_s`: how long it waits for another job; 0 is for listing only. `task`: one that this process serves
        already, and beyond the writing; None opens and serves the brief's own, with its problem in `archive`. `busy`:
        whether the search is at work for others, which it would be without agents too: it waits for that."""
        self._idle_s, self._task, self._archive, self._busy = idle_s, task, archive, busy
        self.confirming: list[Job] = []
        """Jobs that asked for the end of the search, which confirms. Whoever made the writer answers them."""
        self.served = False
        """Whether it came to its turn."""

    def missing(self, target: str) -> str | None:
        if self._idle_s > 0:
            return None
        return "it waits for coding agents, so it runs where it is named: --writers agent"

    async def write(self, brief: Brief, bench: Bench) -> None:
        with TaskStore() as store:
            task = self._task or store.open_task(brief.problem, brief.target, (), self._archive)
            with nullcontext() if self._task else store.serving(task):
                self.served = True
                await self._serve(store, task, bench)

    async def _serve(self, store: TaskStore, task: Task, bench: Bench) -> None:
        under_way: set[asyncio.Task[None]] = set()
        heard = time.monotonic()
        try:
            while not self.confirming and (under_way or time.monotonic() - heard < self._idle_s):
                job = store.take(task)
                if job is None:
                    await asyncio.sleep(_LOOK_S)
                elif job.kind == "confirm":
                    self.confirming.append(job)
                    # What is to be confirmed was judged in another process, maybe: this search has not seen it.
                    under_way |= {asyncio.create_task(_again(candidate, bench)) for candidate in job.candidates}
                else:
                    under_way.add(asyncio.create_task(_bring(job, store, bench)))
                if under_way or job or self._busy():
                    heard = time.monotonic()
                under_way = {one for one in under_way if not one.done()}
            await asyncio.gather(*under_way)
        finally:
            for one in under_way:
                one.cancel()


async def _again(candidate: Candidate, bench: Bench) -> None:
    with suppress(KernelwrightError):  # then there is nothing to confirm, which is the answer
        await bench.submit(candidate)


async def _bring(job: Job, store: TaskStore, bench: Bench) -> None:
    """A job to the bench and its answer to the store."""
    try:
        if job.kind == "trial":
            trials = await bench.trial(job.candidates, Case())
            store.end(job, json.dumps([encode(trial) for trial in trials]))
        else:
            verdict = await bench.submit(job.candidates[0])
            store.end(job, verdict.digest)
    except Exception as error:  # the judge's own trouble, whatever it was: this agent is told, the others go on
        ours = isinstance(error, KernelwrightError) and str(error)
        store.end(job, str(error) if ours else f"the judge failed: {type(error).__name__}: {error}", failed=True)
