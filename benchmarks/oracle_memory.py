"""What an answer of the reference, and a result compared with it, take in memory, as a multiple of what one call of
the reference takes: its inputs, weights, results and the largest tensor between them. Linux; each problem in a process
of its own.

    python benchmarks/oracle_memory.py [--megabytes 256] [--whole] [--json benchmarks/results/oracle_memory.json]
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROBLEMS = {
    "softmax of rows": ("torch.softmax(x, -1)", "ROWS, 4096", 4 * 4096 * 3),
    "sum of rows": ("x.sum(-1)", "ROWS, 4096", 4 * 4096),
    "attention": ("torch.softmax(x @ x.transpose(-1, -2), -1) @ x", "ROWS, 512, 64", 4 * 512 * (512 + 2 * 64)),
    "a chain of steps": ("torch.tanh(x * torch.sigmoid(x)) + 1", "ROWS, 4096", 4 * 4096 * 3),
    "a convolution": ("torch.relu(self.inner(x))", "ROWS, 16, 64, 64", 4 * 64 * 64 * (16 + 32 + 32)),
}
TEXT = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(16, 32, 3, padding=1)

    def forward(self, x):
        return BODY


def get_inputs():
    return [torch.randn(SHAPE)]
"""


def resident(what: str) -> int:
    """Bytes: VmRSS now, VmHWM at most since the last reset."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def measure(path: str, whole: bool) -> dict[str, Any]:
    import torch

    from kernelwright import problems
    from kernelwright.judge.examination import examine
    from kernelwright.judge.reference import Reference
    from kernelwright.judge.rows import Pieces
    from kernelwright.problems.footprint import footprint
    from kernelwright.records import Case

    torch.set_num_threads(1)
    problem = problems.load(f"{path}:Net")
    cost = footprint(problem)
    assert cost
    reference = Reference(problem, None, 0, pieces=Pieces(whole_bytes=1 << 60) if whole else Pieces())
    Path("/proc/self/clear_refs").write_text("5")
    before, began = resident("VmRSS"), time.process_time()
    _leaves, answer = reference.ask(Case("nominal", 1))
    answered_s = time.process_time() - began
    assert answer
    results = [item.own.clone() for item in answer.wanted]
    began = time.process_time()
    wrong = sum(examine(result, item).wrong for result, item in zip(results, answer.wanted, strict=True))
    compared_s = time.process_time() - began
    assert not wrong
    own = cost.inputs_bytes + cost.weights_bytes + cost.largest_bytes + sum(item.own.nbytes for item in answer.wanted)
    return {
        "own_bytes": own,
        "times": (resident("VmHWM") - before) / own,
        "answered_s": answered_s,
        "compared_s": compared_s,
        "note": reference.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=256, help="what one call takes")
    parser.add_argument("--whole", action="store_true", help="the oracle never in pieces")
    parser.add_argument("--json", type=Path, help="where the rows are written to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.whole)))
        return
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, (name, (body, shape, row_bytes)) in enumerate(PROBLEMS.items()):
            path = Path(folder) / f"net{place}.py"
            rows = str((chosen.megabytes << 20) // row_bytes)
            path.write_text(TEXT.replace("BODY", body).replace("SHAPE", shape.replace("ROWS", rows)))
            line = [sys.executable, __file__, "--one", str(path), *(["--whole"] if chosen.whole else [])]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name:20} {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            row = found[name] = json.loads(done.stdout)
            print(
                f"{name:20} {row['own_bytes'] / 2**20:8.0f} MB  {row['times']:5.2f} times  {row['answered_s']:6.1f} s  "
                f"{row['compared_s']:6.2f} s to compare  {row['note']}",
                flush=True,
            )
    if chosen.json:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        kind = "as a whole" if chosen.whole else "in pieces"
        told = {"commit": commit.stdout.strip(), "megabytes": chosen.megabytes, "oracle": kind, "rows": found}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
