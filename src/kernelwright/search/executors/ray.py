"""The nodes of a Ray cluster that carry the device's resource: `cpu`, `cuda_h200`, `metal_m4`.

Each unit of the resource is a physical device, and one judge has it at a time, so that a timing is alone on its device.
A node that is lost takes its judge with it; the candidate it had is judged by another.
"""

# Ray is an extra, and the check runs without it.
# pyright: reportMissingImports=false

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from kernelwright.errors import KernelwrightError, MissingError, UsageError
from kernelwright.records import Candidate, Case, Environment, Problem, Trial, Verdict

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.search.bench import Court

TRIES = 3
"""Judges that a candidate may lose before it is given up: it may be what they died of."""
WAIT_S = 60.0
"""For a node with the resource to appear. Ray itself would wait for ever."""
LOOK_S = 0.25


class RayExecutor:
    """Judges on a Ray cluster: "ray" joins or starts one here, "ray:ADDRESS" joins that one.

    "ray:ADDRESS#RESOURCE" names the resource, where nodes carry several of one kind, as cuda_h200 and cuda_a100.
    """

    name = "ray"

    def __init__(self, where: str = "", wait_s: float = WAIT_S) -> None:
        self._address, _, self._resource = where.partition("#")
        self._wait_s = wait_s

    def missing(self) -> str | None:
        try:
            import ray  # noqa: F401
        except ImportError:
            return "the executor ray needs the package ray: pip install 'kernelwright[ray]' (on all nodes the same)"
        return None

    @contextmanager
    def court(self, problem: Problem, device: str, weights: "Mapping[str, Tensor] | None") -> "Iterator[Court]":
        from kernelwright.judge import JUDGE_VERSION
        from kernelwright.search.bench import Court

        self._join()
        resource, count = self._find(device)
        jury = RayJury(lambda: _start(problem, device, weights, resource), count, self._wait_s)
        try:
            yield Court(jury, jury.environment, JUDGE_VERSION, slots=count)
        finally:
            jury.close()

    def _join(self) -> None:
        import ray

        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # nobody without the cluster's token may submit work
        try:
            ray.init(
                address=self._address or None,
                log_to_driver=False,
                include_dashboard=False if not self._address else None,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise MissingError(f"no Ray cluster at {self._address or 'this machine'}: {error}") from error

    def _find(self, device: str) -> tuple[str, int]:
        """The resource that stands for the device, and how many there are."""
        import ray

        until = time.monotonic() + self._wait_s
        while True:
            there = {name: int(count) for name, count in ray.cluster_resources().items() if ":" not in name}
            wanted = (
                [self._resource]
                if self._resource
                else [device, *(n for n in sorted(there) if n.startswith(device + "_"))]
            )
            found = [name for name in wanted if there.get(name, 0) >= 1]
            if len(found) == 1:
                return found[0], there[found[0]]
            if found:
                raise UsageError(
                    f"the cluster has {' and '.join(found)}, whose times differ: write ray:ADDRESS#{found[0]}"
                )
            if time.monotonic() > until:
                break
            time.sleep(LOOK_S)
        raise MissingError(
            f"no node of the cluster carries the resource {' or '.join(wanted)} (after {self._wait_s:.0f} s); start "
            f"one with: ray start --address=HEAD --resources '{{\"{wanted[0]}\": 1}}'. "
            f"There are: {', '.join(sorted(there))}"
        )


class RayJury:
    """See search.bench.Jury: hands each question to a judge that is free. Thread-safe."""

    def __init__(self, start: Callable[[], Any], count: int, wait_s: float) -> None:
        self._start, self._wait_s = start, wait_s
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._held: list[Candidate] = []
        self._holds: dict[Any, set[str]] = {}
        self._lock = threading.Lock()
        self._alive = count
        for _ in range(count):
            self._free.put(start())
        self.environment: Environment = self._ask("environment")
        """Of one node; verdicts carry that of the node that gave them."""

    @property
    def noise_floor(self) -> float:
        return self._ask("noise_floor")

    def submit(self, candidate: Candidate) -> Verdict:
        return self._ask("submit", candidate)

    def confirm(self, candidate: Candidate) -> Verdict:
        return self._ask("confirm", candidate)

    def trial(self, candidates: Sequence[Candidate], case: Case) -> tuple[Trial, ...]:
        return self._ask("trial", tuple(candidates), case)

    def hold(self, candidate: Candidate) -> None:
        """From now on each judge times it beside whatever it is asked for, once it has judged it itself."""
        with self._lock:
            self._held.append(candidate)

    def close(self) -> None:
        import ray

        with self._lock:
            judges = list(self._holds)
        with suppress(queue.Empty):
            while True:
                judges.append(self._free.get_nowait())
        for judge in {id(judge): judge for judge in judges}.values():
            with suppress(Exception):
                ray.kill(judge)

    def _ask(self, what: str, *arguments: Any) -> Any:
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        for _ in range(TRIES):
            judge = self._take()
            try:
                with self._lock:
                    late = [item for item in self._held if item.digest not in self._holds.setdefault(judge, set())]
                for baseline in late:
                    ray.get(judge.hold.remote(baseline))
                    self._holds[judge].add(baseline.digest)
                answer = ray.get(getattr(judge, what).remote(*arguments))
            except RayActorError:  # its node or its process is gone
                with self._lock:
                    self._holds.pop(judge, None)
                self._free.put(self._start())  # waits for a device, there or elsewhere
                continue
            except RayTaskError as error:
                self._free.put(judge)
                cause = error.cause
                raise (
                    cause if isinstance(cause, KernelwrightError) else KernelwrightError(str(cause or error))
                ) from error
            self._free.put(judge)
            return answer
        raise KernelwrightError(f"{TRIES} judges were lost while they were at it; the candidate may be why")

    def _take(self) -> Any:
        """A judge that is free and has its device."""
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError

        lost = 0
        waiting: list[Any] = []
        until = time.monotonic() + self._wait_s
        try:
            while True:
                try:
                    judge = self._free.get(timeout=LOOK_S)
                except queue.Empty:
                    if not waiting:
                        continue  # all are at work
                    judge = waiting.pop(0)
                try:
                    ray.get(judge.ready.remote(), timeout=LOOK_S)
                    return judge
                except GetTimeoutError:
                    waiting.append(judge)  # it has no device yet
                except RayActorError:
                    lost += 1
                    waiting.append(self._start())
                if len(waiting) >= self._alive and time.monotonic() > until:
                    raise MissingError(
                        f"no node with the device has been there for {self._wait_s:.0f} s; {lost} judges were lost"
                    )
        finally:
            for judge in waiting:
                self._free.put(judge)


def _start(problem: Problem, device: str, weights: "Mapping[str, Tensor] | None", resource: str) -> Any:
    import ray

    kind: Any = ray.remote(_RemoteJudge)
    return kind.options(num_cpus=0, resources={resource: 1}, max_restarts=0).remote(problem, device, weights)


class _RemoteJudge:
    """A judge on a node, with its device."""

    def __init__(self, problem: Problem, device: str, weights: "Mapping[str, Tensor] | None") -> None:
        self._opening = (problem, device, weights)
        self._judge: Any = None

    def ready(self) -> bool:
        return True

    def environment(self) -> Environment:
        from kernelwright.targets import environment

        return environment(self._opening[1])

    def noise_floor(self) -> float:
        return self._opened().noise_floor

    def submit(self, candidate: Candidate) -> Verdict:
        return self._opened().submit(candidate)

    def confirm(self, candidate: Candidate) -> Verdict:
        return self._opened().confirm(candidate)

    def trial(self, candidates: tuple[Candidate, ...], case: Case) -> tuple[Trial, ...]:
        return self._opened().trial(candidates, case)

    def hold(self, candidate: Candidate) -> None:
        judge = self._opened()
        judge.submit(candidate)
        judge.hold(candidate)

    def _opened(self) -> Any:
        if self._judge is None:
            from kernelwright.judge import Judge

            problem, device, weights = self._opening
            self._judge = Judge(problem, device, weights=weights)
        return self._judge
