"""The nodes of a Ray cluster that carry the device's resource: `cpu`, `cuda_h200`, `metal_m4`.

Each unit of the resource is a physical device, and one judge has it at a time, so that a timing is alone on its device.
A node that is lost takes its judge with it; the candidate it had is judged by another.
"""

# Ray is an extra, and the check runs without it; without it the name means this file.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import KernelwrightError, MissingError, UsageError
from kernelwright.records import Candidate, Case, Environment, Problem, Status, Trial, Verdict

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.search.bench import Court

TRIES = 3
"""Judges that a candidate may lose before it is given up: it may be what they died of."""
WAIT_S = 60.0
"""For a node with the resource to appear. Ray itself would wait for ever."""
LOOK_S = 0.25


@dataclass(frozen=True)
class Devices:
    """What a cluster has room for: a judge on each."""

    resource: str
    count: int
    at_once: int
    """Candidates that each judge builds and verifies at once. Its clock is for one alone."""


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
        devices = self._find(device)
        jury = RayJury(lambda: _start(problem, device, weights, devices), devices, self._wait_s)
        try:
            yield Court(jury, jury.environment, JUDGE_VERSION, slots=devices.count * devices.at_once)
        finally:
            jury.close()

    def _join(self) -> None:
        import ray

        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # nobody without the cluster's token may submit work
        os.environ.setdefault("RAY_worker_niceness", "0")  # where it starts one here: see _undo_handicap
        try:
            ray.init(
                address=self._address or None,
                log_to_driver=False,
                include_dashboard=False if not self._address else None,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise MissingError(f"no Ray cluster at {self._address or 'this machine'}: {error}") from error

    def _find(self, device: str) -> Devices:
        """The resource that stands for the device, how many there are, and what their nodes' cores allow."""
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
                return Devices(found[0], there[found[0]], _at_once(found[0]))
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


def _at_once(resource: str) -> int:
    """As on one machine, by the cores that the node with the fewest has for each of its devices."""
    import ray

    from kernelwright.search.bench import side_by_side

    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get(resource, 0) >= 1]
    return min((side_by_side(int(node.get("CPU", 1) / node[resource])) for node in nodes), default=1)


class RayJury:
    """See search.bench.Jury: hands each question to a judge that has room for it. Thread-safe."""

    def __init__(self, start: Callable[[], Any], devices: Devices, wait_s: float) -> None:
        self._wait_s = wait_s
        self._seats = tuple(_Seat(start) for _ in range(devices.count))
        self._room: queue.SimpleQueue[_Seat] = queue.SimpleQueue()
        for _ in range(devices.at_once):
            for seat in self._seats:
                self._room.put(seat)
        self._held: list[Candidate] = []
        self._lock = threading.Lock()
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
        for seat in self._seats:
            seat.close()

    def _ask(self, what: str, *arguments: Any) -> Any:
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        for _ in range(TRIES):
            seat, judge = self._take()
            try:
                with self._lock:
                    held = tuple(self._held)
                seat.bring(judge, held)
                return ray.get(getattr(judge, what).remote(*arguments))
            except RayActorError:  # its node or its process is gone
                seat.replace(judge)  # waits for a device, there or elsewhere
            except RayTaskError as error:
                cause = error.cause
                raise (
                    cause if isinstance(cause, KernelwrightError) else KernelwrightError(str(cause or error))
                ) from error
            finally:
                self._room.put(seat)
        raise KernelwrightError(f"{TRIES} judges were lost while they were at it; the candidate may be why")

    def _take(self) -> "tuple[_Seat, Any]":
        """A seat with room whose judge has its device, and that judge."""
        aside: list[_Seat] = []
        until = time.monotonic() + self._wait_s
        try:
            while True:
                try:
                    seat = self._room.get(timeout=LOOK_S)
                except queue.Empty:
                    seat = None  # all are at work, or wait for a device
                if seat is not None:
                    judge = seat.ready()
                    if judge is not None:
                        return seat, judge
                    aside.append(seat)
                if any(seat.has_device for seat in self._seats):
                    until = time.monotonic() + self._wait_s
                elif time.monotonic() > until:
                    lost = sum(seat.lost for seat in self._seats)
                    raise MissingError(
                        f"no node with the device has been there for {self._wait_s:.0f} s; {lost} judges were lost"
                    )
                if seat is None and aside:
                    self._room.put(aside.pop(0))
        finally:
            for seat in aside:
                self._room.put(seat)


class _Seat:
    """The judge of one device, and after its loss the next one. Thread-safe."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start, self._judge = start, start()
        self._lock = threading.Lock()
        self._holds: set[str] = set()
        self.has_device = False
        self.lost = 0

    def ready(self) -> Any:
        """The judge, if it has its device by now; else None."""
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError

        judge = self._judge
        try:
            ray.get(judge.ready.remote(), timeout=LOOK_S)
        except GetTimeoutError:
            return None
        except RayActorError:
            self.replace(judge)
            return None
        self.has_device = True
        return judge

    def bring(self, judge: Any, held: Sequence[Candidate]) -> None:
        """Has the judge hold these baselines too. Other questions wait meanwhile: all are timed beside them."""
        import ray

        with self._lock:
            for baseline in held:
                if self._judge is judge and baseline.digest not in self._holds:
                    ray.get(judge.hold.remote(baseline))
                    self._holds.add(baseline.digest)

    def replace(self, judge: Any) -> None:
        """Another judge in the place of this one, which is lost; several of its questions may find that out."""
        with self._lock:
            if self._judge is judge:
                self._judge, self._holds, self.has_device = self._start(), set(), False
                self.lost += 1

    def close(self) -> None:
        import ray

        with suppress(Exception):
            ray.kill(self._judge)


def _start(problem: Problem, device: str, weights: "Mapping[str, Tensor] | None", devices: Devices) -> Any:
    import ray

    kind: Any = ray.remote(_RemoteJudge)
    made = kind.options(
        num_cpus=0, resources={devices.resource: 1}, max_restarts=0, max_concurrency=devices.at_once + 1
    )  # one more, so that whether it is ready is answered while it is at work
    return made.remote(pickle.dumps((problem, device, weights)))


def _undo_handicap() -> None:
    """Ray gives its workers one thread of OpenMP and a low priority, which suits many small tasks and no clock.

    What was set by whoever started the node stays. To raise the priority again takes root; docs/cluster.md tells others
    how to start a node.
    """
    with suppress(OSError):
        if b"\0OMP_NUM_THREADS=" not in b"\0" + Path("/proc/self/environ").read_bytes():
            os.environ.pop("OMP_NUM_THREADS", None)
        for thread in Path("/proc/self/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)


class _RemoteJudge:
    """A judge on a node, with its device. Several threads call it."""

    def __init__(self, opening: bytes) -> None:
        """`opening`: problem, device and weights, pickled, since reading tensors brings torch, which counts threads."""
        _undo_handicap()
        self._opening: tuple[Problem, str, Mapping[str, Tensor] | None] = pickle.loads(opening)
        self._lock = threading.Lock()
        self._judge: Any = None
        self._passed: set[str] = set()

    def ready(self) -> bool:
        return True

    def environment(self) -> Environment:
        from kernelwright.targets import environment

        return environment(self._opening[1])

    def noise_floor(self) -> float:
        return self._opened().noise_floor

    def submit(self, candidate: Candidate) -> Verdict:
        verdict = self._opened().submit(candidate)
        if verdict.status is Status.PASSED:
            self._passed.add(candidate.digest)
        return verdict

    def confirm(self, candidate: Candidate) -> Verdict:
        return self._opened().confirm(candidate)

    def trial(self, candidates: tuple[Candidate, ...], case: Case) -> tuple[Trial, ...]:
        return self._opened().trial(candidates, case)

    def hold(self, candidate: Candidate) -> None:
        if candidate.digest not in self._passed:
            self.submit(candidate)
        self._opened().hold(candidate)

    def _opened(self) -> Any:
        with self._lock:
            if self._judge is None:
                from kernelwright.judge import Judge

                problem, device, weights = self._opening
                self._judge = Judge(problem, device, weights=weights)
            return self._judge
