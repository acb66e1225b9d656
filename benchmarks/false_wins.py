"""How often the clock calls a kernel faster than itself, and how surely it sees a planted difference.

    python benchmarks/false_wins.py [--pairs 1000] [--planted 0.03] [--us 1000] [--confirm] [--json PATH]

A kernel whose time is proportional to one number is held as baseline. Its copy (other text, same work) is submitted
again and again: a win or a loss is false. Then copies that do `planted` less or more work: a win, or a loss, is what
has to be found. The rule is the search's own: a win where the interval of the ratio lies above 1 plus the machine's
floor, a loss where it lies below 1 minus the floor. To be run on a machine that does nothing else; `unrest` tells.
"""

import argparse
import json
import subprocess
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from kernelwright import problems
from kernelwright.judge import JUDGE_VERSION, Gate, Judge, Settings
from kernelwright.records import Candidate, SourceFile, Status

PROBLEM = """
import torch
from torch import nn

class Scale(nn.Module):
    def forward(self, x):
        return x * 2.0

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
# A chain of steps of which each needs the one before, beside the result: nothing can shorten or overlap it.
KERNEL = """kernel void work(float* out, const float* x, int64 count, int64 steps) {
    float chain = x[0] != x[0] ? 1.0f : 0.0f;
    for (int64 i = 0; i < steps; ++i) chain = chain * 0.5f + 0.25f;
    float zero = chain > 2.0f ? 1.0f : 0.0f;
    for (int64 i = 0; i < count; ++i) out[i] = x[i] * (2.0f + zero);
}
"""
MODEL = """# {label}
import torch
from torch import nn
import kernelwright

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lib = kernelwright.compile(kernelwright.source("work.cpp"), language="cpp")

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        self.lib.work(out, x, x.numel(), {steps})
        return out
"""


@dataclass(frozen=True)
class Tried:
    """What became of `pairs` submissions that do `work` times the baseline's work."""

    work: float
    pairs: int
    wins: int
    losses: int
    disturbed: int
    """Where the machine was not quiet by the judge's own finding."""
    ratios: tuple[float, ...]


def candidate(label: str, steps: int) -> Candidate:
    sources = (SourceFile("model.py", MODEL.format(label=label, steps=steps)), SourceFile("work.cpp", KERNEL))
    return Candidate("pairs", "cpp@cpu", sources, label=label)


def steps_for(judge: Judge, wanted_us: float) -> int:
    """So many steps that a call takes about `wanted_us`."""
    probe = judge.submit(candidate("probe", 100_000))
    assert probe.timing is not None, probe.reason
    return round(100_000 * wanted_us / probe.timing.median_us)


def tried(judge: Judge, work: float, steps: int, pairs: int, *, confirm: bool) -> Tried:
    """`pairs` copies beside the held baseline."""
    found: Counter[str] = Counter()
    ratios = []
    for pair in range(pairs):
        ask = judge.confirm if confirm else judge.submit
        verdict = ask(candidate(f"{work} {pair}", round(steps * work)))
        assert verdict.status is Status.PASSED and verdict.comparisons, verdict.reason
        beside, floor = verdict.comparisons[0], judge.noise_floor
        found["wins"] += beside.low > 1.0 + floor
        found["losses"] += beside.high < 1.0 - floor
        found["disturbed"] += any(item.check == "quiet_clock" and not item.ok for item in verdict.findings)
        ratios.append(round(beside.speedup, 4))
        if (pair + 1) % 50 == 0:
            print(f"work {work}: {pair + 1} pairs, {dict(found)}, median ratio {median(ratios):.4f}", flush=True)
    return Tried(work, pairs, found["wins"], found["losses"], found["disturbed"], tuple(ratios))


def main() -> None:
    """Runs all three and prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--planted-pairs", type=int, default=100)
    parser.add_argument("--planted", type=float, default=0.03)
    parser.add_argument("--us", type=float, default=1000.0)
    parser.add_argument(
        "--confirm", action="store_true", help="time as a confirmation does: longer, and what is published"
    )
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "scale.py"
        file.write_text(PROBLEM)
        problem = problems.load(f"{file}:Scale")
    with Judge(problem, "cpu", settings=Settings(survey=False, pool_seeds=1), gate=Gate()) as judge:
        steps = steps_for(judge, asked.us)
        judge.hold(replace(candidate("baseline", steps), baseline=True))  # trusted, as what is held always is
        rows = [
            tried(judge, work, steps, pairs, confirm=asked.confirm)
            for work, pairs in (
                (1.0, asked.pairs),
                (1.0 - asked.planted, asked.planted_pairs),
                (1.0 + asked.planted, asked.planted_pairs),
            )
        ]
        floor, unrest = judge.noise_floor, judge.unrest
    same, less, more = rows
    print(f"false wins {same.wins} and losses {same.losses} of {same.pairs}; floor {floor:.2%}, unrest {unrest:.2%}")
    print(
        f"{asked.planted:.0%} less work: {less.wins} of {less.pairs} found; more: {more.losses} of {more.pairs} found"
    )
    if asked.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        told = {
            "commit": commit.stdout.strip(),
            "judge": JUDGE_VERSION,
            "confirm": asked.confirm,
            "call_us": asked.us,
            "seconds": round(time.monotonic() - began),
            "floor": floor,
            "unrest": unrest,
            "machine": asdict(judge.environment.facts),
            "rows": [asdict(row) for row in rows],
        }
        asked.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
