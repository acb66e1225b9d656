"""What `kernelwright.optimize` takes for typical problems of the suite, and what it takes a second time.

    python benchmarks/tuning_time.py [softmax mlp ...] [--budget 5m] [--json PATH]

Each problem is optimised by the template writer, beside eager, in a new process with a new home(); then once more in
another process with the same home, which has all of it from the archive. Wall-clock seconds from `import kernelwright`
to the module that is returned (torch is imported before, as for any model); of the first one by parts:

    import     the rooms of kernelwright, and what of torch they need beyond `import torch`
    trace      the module as a problem: its graph, its text, both run and compared
    machine    caches, bandwidth and flops of this machine, measured once a home
    reference  the original built, verified and timed: oracle, sandboxed child, clock
    submit     the candidates that were proposed, each built, verified and timed
    trial      the tuner's short looks at variants, built and run once
    noise      the original beside itself, for how much of a difference means nothing
    confirm    the winner again, on fresh seeds in a new child, timed longer
    other      the rest: lowering, archive, the winner put into the module

"tuning" is submit and trial together, so all that compiles and tunes; "compile" is what its builds take of that.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROBLEMS = ("softmax", "layernorm", "elementwise", "mlp", "conv_norm_relu", "attention")
PARTS = ("import", "trace", "machine", "reference", "submit", "trial", "noise", "confirm")
SUITE = Path(__file__).parent / "suite"


def main() -> None:
    parser = argparse.ArgumentParser(description="What optimize takes, at first and the second time.")
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="PROBLEM")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--json", metavar="PATH", help="rows of other problems that are there stay")
    parser.add_argument("--one", choices=("parts", "whole"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.problems[0], chosen.budget, parts=chosen.one == "parts")))
        return
    rows = [both(name, chosen.budget) for name in chosen.problems]
    if chosen.json:
        write(Path(chosen.json), rows)


def both(name: str, budget: str) -> dict[str, Any]:
    """The first optimisation of a problem and the second, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for what in ("parts", "whole"):
            line = [sys.executable, __file__, name, "--budget", budget, "--one", what]
            done = subprocess.run(
                line, env=os.environ | {"KERNELWRIGHT_HOME": folder}, stdout=subprocess.PIPE, text=True, check=True
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = runs
    parts = "  ".join(f"{part} {first[part]:.1f}" for part in (*PARTS, "other"))
    print(f"{name:15} {first['total']:5.1f} s: {parts}; tuning {first['tuning']:.1f}, compile {first['compile']:.1f}")
    print(f"{'':15} again {second['total']:.2f} s; {first['result']}", flush=True)
    return {"problem": name, "budget": budget, "first": first, "second": second}


def measure(name: str, budget: str, *, parts: bool) -> dict[str, Any]:
    """Seconds, in this process. `parts`: each part is watched, for which rooms are imported that a second run may not
    need."""
    import torch  # noqa: F401

    spec = importlib.util.spec_from_file_location(name, SUITE / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, inputs = module.Model(*module.get_init_inputs()), module.get_inputs()
    told: list[str] = []
    began = time.perf_counter()
    import kernelwright

    spent = watched() if parts else {}
    if parts:
        spent["import"] = time.perf_counter() - began
    kernelwright.optimize(
        model, inputs, writers="template", budget=budget, watch=lambda event, _: told.append(event.message)
    )
    total = time.perf_counter() - began
    if parts:
        spent["other"] = total - sum(spent[part] for part in PARTS)
        spent["tuning"] = spent["submit"] + spent["trial"]
    rounded = {key: round(value, 2) for key, value in (spent | {"total": total}).items()}
    return {**rounded, "result": told[-1] if told else "from the archive"}


def watched() -> dict[str, float]:
    """The seconds that each part has taken, from now on."""
    from kernelwright import problems, targets
    from kernelwright.judge import Judge
    from kernelwright.judge.beside import Beside
    from kernelwright.problems import live
    from kernelwright.targets import LocalBroker

    spent: dict[str, float] = dict.fromkeys((*PARTS, "compile"), 0.0)

    def watch(owner: Any, function: str, part: Callable[..., str]) -> None:
        inner: Callable[..., Any] = getattr(owner, function)

        def outer(*args: Any, **keywords: Any) -> Any:
            began = time.perf_counter()
            try:
                return inner(*args, **keywords)
            finally:
                spent[part(*args)] += time.perf_counter() - began

        setattr(owner, function, outer)

    watch(live, "from_module", lambda *_: "trace")
    problems.from_module = live.from_module  # pyright: ignore[reportAttributeAccessIssue]
    watch(targets, "environment", lambda *_: "machine")
    watch(Judge, "submit", lambda _, candidate: "reference" if candidate.baseline else "submit")
    watch(Judge, "trial", lambda *_: "trial")
    watch(Beside, "_measure_noise", lambda *_: "noise")
    watch(Judge, "confirm", lambda *_: "confirm")
    watch(LocalBroker, "build", lambda *_: "compile")
    return spent


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    from kernelwright import targets
    from kernelwright.judge import JUDGE_VERSION
    from kernelwright.records import encode

    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=SUITE, capture_output=True, text=True, check=False
    ).stdout.strip()
    before = json.loads(path.read_text())["rows"] if path.is_file() else []
    named = {row["problem"]: row for row in [*before, *rows]}
    made = {"commit": commit, "judge": JUDGE_VERSION, "machine": encode(targets.environment("cpu").facts)}
    path.write_text(json.dumps({**made, "rows": list(named.values())}, indent=1) + "\n")


if __name__ == "__main__":
    main()
