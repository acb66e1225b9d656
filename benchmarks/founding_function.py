"""The function the project was founded on, beside Numba: res[k] += count * a[i] * b[j] over the rows of an operator.

    python benchmarks/founding_function.py --sizes 943,1e4,1e5,1e6,1e7 --out benchmarks/results/founding_function.json

One process; all implementations take turns, so that what disturbs the machine disturbs all. Each time is that of a
call, all checks on unless the name says otherwise; results are compared with NumPy's before anything is timed. The
first call (compile, and from the cache) is timed in processes of its own. Run it on a machine that does nothing else.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kernelwright as kw
from kernelwright.errors import UsageError
from kernelwright.targets import environment

SIZE, PLACES = 15, 127
PLANS = ("segmented", "factored", "folded")


def shuffle_mul(a, b, operator, res):
    res[:] = 0.0
    for n in range(operator.shape[0]):
        i, j, k, count = operator[n]
        res[k] += count * a[i] * b[j]


def operands(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    columns = [random.integers(0, limit, length) for limit in (SIZE, SIZE, PLACES)]
    operator = np.stack([*columns, random.integers(1, 9, length)], axis=1)
    return random.standard_normal(SIZE), random.standard_normal(SIZE), operator, np.zeros(PLACES)


def by_numpy(a: np.ndarray, b: np.ndarray, operator: np.ndarray) -> np.ndarray:
    i, j, k, count = operator.T
    return np.bincount(k, count * a[i] * b[j], minlength=PLACES)


def implementations(length: int, threads: int) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """What to time at one size, and what is missing with the reason."""
    a, b, operator, res = operands(length)
    constant, expected = kw.constant(operator), by_numpy(a, b, operator)
    found: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}

    def offer(name: str, function: Callable[..., Any], rows: np.ndarray) -> None:
        try:
            res[:] = np.nan
            function(a, b, rows, res)
        except UsageError as error:
            missing[name] = str(error)
            return
        np.testing.assert_allclose(res, expected, rtol=1e-9, atol=1e-9 * abs(expected).max())
        found[name] = lambda: function(a, b, rows, res)

    try:
        import numba
    except ImportError:
        missing["numba"] = "numba is not installed: pip install 'kernelwright[numba]'"
    else:
        offer("numba", numba.njit(shuffle_mul), operator)
        offer("numba fastmath", numba.njit(fastmath=True)(shuffle_mul), operator)
    offer("ours", kw.njit(shuffle_mul), operator)
    offer("ours unchecked", kw.njit(boundscheck=False)(shuffle_mul), operator)
    offer("ours constant", kw.njit(shuffle_mul), constant)
    for plan in PLANS:
        offer(f"ours constant {plan}", kw.njit(plan=plan)(shuffle_mul), constant)
    if threads > 1:
        offer(f"ours {threads} threads", kw.njit(parallel=True)(shuffle_mul), operator)
        offer(
            f"ours constant segmented {threads} threads",
            kw.njit(parallel=True, plan="segmented")(shuffle_mul),
            constant,
        )
    return found, missing


def timed(found: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Microseconds a call, one sample a turn, implementations by turns."""
    calls: dict[str, int] = {}
    for name, call in found.items():
        start = time.perf_counter()
        call()
        calls[name] = max(1, min(20_000, int(2e-3 / max(time.perf_counter() - start, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in found}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < 5:
        for name, call in found.items():
            turns = range(calls[name])
            start = time.perf_counter()
            for _ in turns:
                call()
            samples[name].append((time.perf_counter() - start) / calls[name] * 1e6)
    return samples


FIRST = """
import sys, time
sys.path.insert(0, {folder!r})
from founding_function import operands, shuffle_mul
a, b, operator, res = operands(943)
import {module} as module
function = module.njit(cache=True)(shuffle_mul)
start = time.perf_counter()
function(a, b, operator, res)
print(time.perf_counter() - start)
"""


def first_calls(module: str) -> dict[str, float]:
    """Seconds of the first call in a fresh process: with an empty cache, and again. Imports come before."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"KERNELWRIGHT_HOME": folder, "NUMBA_CACHE_DIR": folder, "PYTHONPYCACHEPREFIX": f"{folder}/pyc"}
        settings["PYTHONDONTWRITEBYTECODE"] = ""
        text = FIRST.format(folder=str(Path(__file__).parent), module=module)
        answers = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={**os.environ, **settings}
            )
            answers.append(float(done.stdout))
    return {"compiled_s": answers[0], "cached_s": answers[1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="943,1e4,1e5,1e6,1e7")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each size")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    rows = []
    for size in given.sizes.split(","):
        length = int(float(size))
        found, missing = implementations(length, given.threads)
        samples = timed(found, given.seconds)
        best = {name: min(values) for name, values in samples.items()}
        base = best.get("numba")
        print(f"L = {length}")
        for name, values in samples.items():
            ratio = f"{base / best[name]:8.2f}x numba" if base else ""
            print(f"  {name:40} {best[name]:12.3f} us min {statistics.median(values):12.3f} us median {ratio}")
        for name, reason in missing.items():
            print(f"  {name:40} {reason}")
        rows.append({"length": length, "samples_us": samples, "missing": missing})
    first = {}
    for module in ("kernelwright", "numba"):
        try:
            first[module] = first_calls(module)
        except subprocess.CalledProcessError as error:
            first[module] = {"missing": error.stderr.strip().splitlines()[-1]}
        print(f"first call of {module}: {first[module]}")
    if given.out:
        here = environment("cpu")
        record = {
            "command": " ".join(sys.argv),
            "commit": subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
            "machine": here.facts.name,
            "system": here.system,
            "python": here.python,
            "numpy": np.__version__,
            "torch": here.torch,
            "numba": _version("numba"),
            "threads": given.threads,
            "load": os.getloadavg() if hasattr(os, "getloadavg") else platform.machine(),
            "rows": rows,
            "first_call": first,
        }
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n")


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
