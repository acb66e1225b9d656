"""The founding function on an NVIDIA GPU, beside torch.scatter_add_ there: `python benchmarks/founding_cuda.py`.

    python benchmarks/founding_cuda.py --length 1e7 --batch 1e5 --out benchmarks/results/founding_cuda.json

All arrays lie on the GPU. Each implementation computes the whole function; results are compared with float64 on the
CPU before anything is timed. Times are wall-clock of a call until the GPU has ended, and of one call of twenty in a
row, implementations by turns; "scatter_add_ alone" has its products ready and is the least that torch can take.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from founding_function import PLACES, SIZE, operands, shuffle_mul

import kernelwright as kw
from kernelwright.targets import environment

Calls = dict[str, tuple[Callable[[], Any], torch.Tensor]]
"""By name: what to call, and where its result lies."""
ROW = 20


def single(length: int, dtype: torch.dtype) -> tuple[Calls, np.ndarray]:
    """One product of so many rows."""
    a, b, operator, _ = operands(length)
    i, j, k, count = operator.T
    wanted = np.bincount(k, count * a[i] * b[j], minlength=PLACES)
    x, y = (torch.from_numpy(item).to("cuda", dtype) for item in (a, b))
    rows = torch.from_numpy(operator).cuda()
    left, right, place = (rows[:, column].contiguous() for column in range(3))
    weight = rows[:, 3].to(dtype)
    made = weight * x[left] * y[right]
    target = lambda: torch.zeros(PLACES, dtype=dtype, device="cuda")
    calls: Calls = {}

    def whole(res: torch.Tensor) -> Callable[[], Any]:
        return lambda: res.zero_().scatter_add_(0, place, weight * x[left] * y[right])

    def alone(res: torch.Tensor) -> Callable[[], Any]:
        return lambda: res.zero_().scatter_add_(0, place, made)

    for name, make in (("torch", whole), ("scatter_add_ alone", alone)):
        res = target()
        calls[name] = make(res), res
    constant = kw.constant(operator)

    def ours(res: torch.Tensor, given: Any, **options: Any) -> Callable[[], Any]:
        function = kw.njit(target="cuda", **options)(shuffle_mul)
        return lambda: function(x, y, given, res)

    res = target()
    calls["ours"] = ours(res, rows), res
    res = target()
    calls["ours unchecked"] = ours(res, rows, boundscheck=False), res
    res = target()
    calls["ours constant"] = ours(res, constant), res
    for plan in ("segmented", "folded"):
        res = target()
        calls[f"ours constant {plan}"] = ours(res, constant, plan=plan), res
    return calls, wanted


def batch(length: int, items: int, dtype: torch.dtype) -> tuple[Calls, np.ndarray]:
    """So many products by one operator."""
    _, _, operator, _ = operands(length)
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((items, SIZE)) for _ in range(2))
    i, j, k, count = operator.T
    wanted = np.zeros((items, PLACES))
    for row in range(length):
        wanted[:, k[row]] += count[row] * a[:, i[row]] * b[:, j[row]]
    x, y = (torch.from_numpy(item).to("cuda", dtype) for item in (a, b))
    rows = torch.from_numpy(operator).cuda()
    left, right, place = (rows[:, column].contiguous() for column in range(3))
    weight = rows[:, 3].to(dtype)
    made, places = weight * x[:, left] * y[:, right], place.expand(items, length)
    target = lambda: torch.zeros((items, PLACES), dtype=dtype, device="cuda")
    name = str(dtype).removeprefix("torch.")
    signature = f"void({name}[:], {name}[:], int64[:,:], {name}[:])"
    calls: Calls = {}
    res = target()
    calls["torch"] = (lambda to=res: to.zero_().scatter_add_(1, places, weight * x[:, left] * y[:, right])), res
    res = target()
    calls["scatter_add_ alone"] = (lambda to=res: to.zero_().scatter_add_(1, places, made)), res
    for words, checked in (("ours", True), ("ours unchecked", False)):
        res = target()
        function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", target="cuda", boundscheck=checked)(shuffle_mul)
        calls[words] = (lambda call=function, to=res: call(x, y, rows, to)), res
    res, constant = target(), kw.constant(operator)
    function = kw.guvectorize([signature], "(n),(n),(l,q)->(k)", target="cuda")(shuffle_mul)
    calls["ours constant"] = (lambda call=function, to=res: call(x, y, constant, to)), res
    return calls, wanted


def proven(calls: Calls, wanted: np.ndarray, dtype: torch.dtype) -> None:
    scale = float(abs(wanted).max())
    for name, (call, res) in calls.items():
        for _ in range(2):
            res.fill_(float("nan"))
            call()
            error = float(abs(res.double().cpu().numpy() - wanted).max()) / scale
            assert error < (1e-9 if dtype is torch.float64 else 2e-3), (name, error)


def timed(calls: Calls, seconds: float) -> dict[str, dict[str, list[float]]]:
    """Microseconds of a call on its own, and of one of ROW in a row."""
    samples = {name: {"single_us": [], "row_us": []} for name in calls}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(samples[next(iter(samples))]["row_us"]) < 7:
        for name, (call, _) in calls.items():
            for kind, count in (("single_us", 1), ("row_us", ROW)):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(count):
                    call()
                torch.cuda.synchronize()
                samples[name][kind].append((time.perf_counter() - start) / count * 1e6)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=float, default=1e7)
    parser.add_argument("--batch", type=float, default=1e5, help="products of 943 rows each")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each table")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tables = []
    for dtype in (torch.float64, torch.float32):
        kinds = {
            f"one product of {given.length:.0e} rows": partial(single, int(given.length), dtype),
            f"{given.batch:.0e} products of 943 rows": partial(batch, 943, int(given.batch), dtype),
        }
        for title, make in kinds.items():
            calls, wanted = make()
            proven(calls, wanted, dtype)
            samples = timed(calls, given.seconds)
            base = statistics.median(samples["torch"]["row_us"])
            print(f"{title}, {str(dtype).removeprefix('torch.')}")
            for name, found in samples.items():
                one, row = (statistics.median(found[kind]) for kind in ("single_us", "row_us"))
                print(f"  {name:28} {one:10.1f} us alone {row:10.1f} us in a row {base / row:8.2f}x torch")
            tables.append({"title": title, "dtype": str(dtype), "samples": samples})
            del calls
            torch.cuda.empty_cache()
    if given.out:
        here = environment("cuda")
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        record = {
            "command": " ".join(sys.argv),
            "commit": commit,
            "machine": here.facts.name,
            "system": here.system,
            "python": here.python,
            "torch": here.torch,
            "tables": tables,
        }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
