"""How many cheap verdicts a minute the executor ray gives beside the local one, on the same cores.

    python benchmarks/cluster_throughput.py [--count 12] [--rounds 3] [--json FILE]

Many cheap candidates are handed in at once, through the search's own docket: a third does not compile, a third
gives wrong values, a third is right and quick. Each turn has texts of its own, so that nothing comes from a cache.
Timed is from the first candidate handed in to the last verdict. What comes before (opening the court, judging
eager) is told apart: it is paid once a search, as is a first turn of three candidates, which is not counted. Both
executors take turns; the cluster is one node of this machine with all its cores and one device. Ratios are of
neighbouring turns; above 1 the cluster is faster.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from kernelwright.archive import Archive
from kernelwright.judge import JUDGE_VERSION
from kernelwright.problems import load
from kernelwright.records import Candidate, Problem, SourceFile, Status
from kernelwright.search.bench import Court, Docket
from kernelwright.search.budget import Deadline
from kernelwright.search.executors import Executor, executor_named
from kernelwright.search.journal import Journal
from kernelwright.targets import environment

KINDS = (Status.COMPILE_ERROR, Status.WRONG_VALUES, Status.PASSED)
ENOUGH_RATIO = 0.8
SEARCH_S = 3600.0
"""Long: no deadline is to end a turn."""
PROBLEM = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0


def get_inputs():
    return [torch.randn(64, 256)]
"""
KERNEL = """kernel void work(float* out, const float* x, int64 count) {{
    // {nonce}
    for (int64 i = 0; i < count; ++i) {{
        float v = x[i] > 0 ? x[i] : (x[i] != x[i] ? x[i] : 0.0f);
        out[i] = {formula};
    }}
}}
"""
FORMULAS = {
    Status.COMPILE_ERROR: "v * nothing",
    Status.WRONG_VALUES: "v * 2.5f + 1.0f",
    Status.PASSED: "v * 2.0f + 1.0f",
}
MODEL = """
import torch, kernelwright
from reference import Model


class ModelNew(Model):
    def __init__(self):
        super().__init__()
        self.lib = kernelwright.compile(kernelwright.source("kernels.cpp"))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        self.lib.work(out, x, x.numel())
        return out
"""


class Bar:
    """An open court with eager held, as a search has it before the first proposal."""

    def __init__(self, problem: Problem, executor: Executor, court: Court) -> None:
        self._problem, self._name = problem, executor.name
        self._docket = Docket(court, Journal(problem, "cpu", Archive(None), Deadline(SEARCH_S)))
        source = SourceFile("model.py", f"{problem.source}\nModelNew = Model\n")
        eager = Candidate("eager", "torch@cpu", (source,), baseline=True)
        status = self._docket.submit(eager).result().status
        if status is not Status.PASSED:
            raise SystemExit(f"{executor.name}: eager is {status.value}")

    def judge(self, count: int, nonce: str) -> float:
        """Seconds from handing in `count` candidates to their last verdict."""
        made = [self._made(place, f"{nonce}-{self._name}-{place}") for place in range(count)]
        began = time.monotonic()
        found = [future.result().status for future in [self._docket.submit(candidate) for candidate in made]]
        seconds = time.monotonic() - began
        if found != [KINDS[place % len(KINDS)] for place in range(count)]:
            raise SystemExit(f"{self._name}: the verdicts are {[status.value for status in found]}")
        return seconds

    def close(self) -> None:
        self._docket.close()

    def _made(self, place: int, nonce: str) -> Candidate:
        kernel = KERNEL.format(nonce=nonce, formula=FORMULAS[KINDS[place % len(KINDS)]])
        texts = {"model.py": MODEL, "reference.py": self._problem.source, "kernels.cpp": kernel}
        return Candidate("cheap", "cpp@cpu", tuple(SourceFile(*item) for item in texts.items()), label=str(place))


@contextmanager
def one_node() -> Iterator[None]:
    """A cluster of this machine's cores with one device "cpu"."""
    import ray

    ray.init("local", num_cpus=os.cpu_count(), resources={"cpu": 1}, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


def main() -> None:
    options = argparse.ArgumentParser(description="Cheap verdicts a minute: ray beside local.")
    options.add_argument("--count", type=int, default=12, help="candidates of a turn")
    options.add_argument("--rounds", type=int, default=3, help="turns of each executor")
    options.add_argument("--json", metavar="FILE", type=Path, help="write the result there")
    options.add_argument("--note", default="", help="what else is to be said of the machine, as that it was busy")
    chosen = options.parse_args()
    seconds: dict[str, list[float]] = {"local": [], "ray": []}
    opened_s: dict[str, float] = {}
    with ExitStack() as stack:
        stack.enter_context(one_node())
        file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "net.py"
        file.write_text(PROBLEM)
        problem = load(f"{file}:Net")
        bars: dict[str, Bar] = {}
        for name in seconds:
            began = time.monotonic()
            executor = executor_named(name)
            bars[name] = Bar(problem, executor, stack.enter_context(executor.court(problem, "cpu", None)))
            stack.callback(bars[name].close)
            opened_s[name] = time.monotonic() - began
            print(f"{name}: open, and eager judged, after {opened_s[name]:.1f} s", file=sys.stderr, flush=True)
        for bar in bars.values():
            bar.judge(len(KINDS), f"{os.getpid()}-first")  # only now does a judge of the cluster hold eager
        for place in range(chosen.rounds):
            for name in list(bars)[:: 1 if place % 2 == 0 else -1]:
                seconds[name].append(bars[name].judge(chosen.count, f"{os.getpid()}-{place}"))
                told = f"{chosen.count / seconds[name][-1] * 60:.0f} verdicts a minute"
                print(f"round {place + 1}/{chosen.rounds} {name:>5}: {told}", file=sys.stderr, flush=True)
        result = summary(seconds, opened_s, chosen.count, chosen.note)
    print(f"ray over local: {result['ratio_median']:.2f} (at least {ENOUGH_RATIO} is asked)")
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=2) + "\n")


def summary(seconds: dict[str, list[float]], opened_s: dict[str, float], count: int, note: str) -> dict[str, object]:
    """Medians, all samples, and what they were measured on."""
    import ray

    here = environment("cpu")
    ratios = [local / far for local, far in zip(seconds["local"], seconds["ray"], strict=True)]
    return {
        "what": "cheap verdicts a minute, the executor ray beside local on the same cores",
        "command": f"python benchmarks/cluster_throughput.py --count {count} --rounds {len(ratios)}",
        "machine": {
            "chip": here.facts.name,
            "cores": os.cpu_count(),
            "system": here.system,
            "python": here.python,
            "torch": here.torch,
            "ray": ray.__version__,
            "note": note,
        },
        "judge": JUDGE_VERSION,
        "candidates": {kind.value: len(range(at, count, len(KINDS))) for at, kind in enumerate(KINDS)},
        "verdicts_a_minute": {name: round(count / median(some) * 60, 1) for name, some in seconds.items()},
        "ratio_median": round(median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "ratio_asked": ENOUGH_RATIO,
        "seconds": {name: [round(item, 2) for item in some] for name, some in seconds.items()},
        "opened_s": {name: round(item, 2) for name, item in opened_s.items()},
    }


if __name__ == "__main__":
    main()
