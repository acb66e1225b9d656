"""What a warm evaluation costs beyond the candidate's own calls, stage by stage.

    python benchmarks/evaluation_overhead.py [--repeats 5]

Counted as the candidate's own run: every interval in which its calls were under way (verification and timing alike),
as the judge's clock saw them. Everything else is overhead: child, orders, inputs, comparison, oracle, rounds of other
sessions. "beside" is the part of it in which the baseline's own calls ran: a comparison by turns cannot do without.
"cpu" is processor time of the judge's own process, which says more than the wall clock where others use the machine.
"""

import argparse
import cProfile
import pstats
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

PROBLEM = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0 + 1.0

def get_inputs():
    return [torch.randn(64, 256)]

def get_init_inputs():
    return []
"""
KERNEL = """kernel void work(float* out, const float* x, int64 count) {
    for (int64 i = 0; i < count; ++i) {
        float v = x[i] > 0 ? x[i] : (x[i] != x[i] ? x[i] : 0.0f);
        out[i] = v * 2.0f + 1.0f;
    }
}
"""
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


def main() -> None:
    options = argparse.ArgumentParser(description="What a warm evaluation costs.")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=0, help="0: as many as torch has")
    options.add_argument("--profile", action="store_true", help="show where one evaluation's time goes")
    chosen = options.parse_args()
    print(f"import kernelwright: {import_ms():.0f} ms")
    if chosen.threads:
        import torch

        torch.set_num_threads(chosen.threads)
    evaluation(chosen.repeats, chosen.profile)


def import_ms() -> float:
    """Best of five, beyond the start of the interpreter."""
    code = "import time; t = time.perf_counter(); import kernelwright; print((time.perf_counter() - t) * 1e3)"
    return min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(5)
    )


def evaluation(repeats: int, profile: bool) -> None:
    import tempfile
    from pathlib import Path

    from kernelwright import problems, targets
    from kernelwright.judge import Gate, Judge
    from kernelwright.judge.beside import Beside
    from kernelwright.judge.session import Session
    from kernelwright.records import Candidate, SourceFile

    folder = Path(tempfile.mkdtemp())
    (folder / "net.py").write_text(PROBLEM)
    problem = problems.load(f"{folder / 'net.py'}:Net")
    eager = Candidate(
        "eager", "torch@cpu", (SourceFile("model.py", f"{problem.source}\nModelNew = Model\n"),), baseline=True
    )
    texts = {"model.py": MODEL, "reference.py": problem.source, "kernels.cpp": KERNEL}
    candidate = Candidate("bench", "cpp@cpu", tuple(SourceFile(*item) for item in texts.items()))
    targets.compile(KERNEL)
    began = time.perf_counter()
    targets.compile(KERNEL)
    print(f"warm compile hit: {(time.perf_counter() - began) * 1e3:.2f} ms")

    spent: dict[str, float] = {}

    def watch(owner: Any, name: str, stage: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def outer(self: Any, *args: Any, **keywords: Any) -> Any:
            began, used = time.perf_counter(), time.process_time()
            answer = inner(self, *args, **keywords)
            spent[stage] = spent.get(stage, 0.0) + (time.perf_counter() - began) * 1e3
            spent[f"{stage} cpu"] = spent.get(f"{stage} cpu", 0.0) + (time.process_time() - used) * 1e3
            if name in ("run", "window"):
                whose = "beside" if self.candidate.baseline else "own"
                spent[whose] = spent.get(whose, 0.0) + answer.forward_us / 1e3
                spent[f"{name}s"] = spent.get(f"{name}s", 0.0) + 1
                if name == "window":
                    spent["calls"] = spent.get("calls", 0.0) + answer.calls
            return answer

        setattr(owner, name, outer)

    for name in ("start", "run", "close"):
        watch(Session, name, name)
    watch(Session, "window", "window")
    watch(Beside, "time", "clock")

    with Judge(problem, "cpu", gate=Gate.private()) as judge:
        for baseline in (eager,):
            print(f"baseline: {judge.submit(baseline).status.value}")
            judge.hold(baseline)
        for _ in range(5):  # the pool's cases and their oracle
            judge.submit(candidate)
        rows: list[dict[str, float]] = []
        for _ in range(repeats):
            spent.clear()
            began, used = time.perf_counter(), time.process_time()
            verdict = judge.submit(candidate)
            wall, cpu = (time.perf_counter() - began) * 1e3, (time.process_time() - used) * 1e3
            rows.append({"wall": wall, "cpu": cpu, **spent, "overhead": wall - spent.get("own", 0.0)})
            assert verdict.timing, verdict.reason
            print(f"{verdict.status.value}, {verdict.timing.median_us:.1f} us, {len(verdict.timing.samples_us)} rounds")
        counts = ("runs", "windows", "calls")
        for name in rows[0]:
            print(f"{name:>10}: {median(row.get(name, 0.0) for row in rows):8.1f}{' ms' * (name not in counts)}")
        print(f"wall - own - beside: {median(row['overhead'] - row['beside'] for row in rows):.1f} ms")
        if profile:
            with cProfile.Profile(time.process_time) as seen:
                judge.submit(candidate)
            pstats.Stats(seen).sort_stats("tottime").print_stats(28)


if __name__ == "__main__":
    main()
