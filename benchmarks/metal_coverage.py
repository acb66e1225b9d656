"""What kernels of public repositories do here: `python benchmarks/metal_coverage.py NAME CHECKOUT [options]`.

NAME is one of metal_cases.CORPORA, or any name with --files PATTERN for a repository without cases. Writes one line a
kernel and a table; docs/metal-coverage.md keeps the tables. Four questions, each with its own option to leave it out:

    front    every file: preprocessed, translated and checked with all its instantiations
    code     a sample over all instantiations, the same each time: compiled to machine code
    run      the cases: compared with NumPy
    check    the cases again, on the check build: nothing may be found
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from metal_cases import CORPORA, Case, Corpus

from kernelwright.errors import KernelwrightError
from kernelwright.metal import frontend
from kernelwright.metal.library import Library

STEPS = ("front", "code", "run", "check")
TOGETHER = 400
"""Instances that `front` checks in one compilation: thousands at once take longer than a compilation may."""


@dataclass(frozen=True)
class Row:
    """One attempt. `error` is empty where it went well."""

    step: str
    file: str
    kernel: str
    seconds: float
    kernels: int = 0
    distance: float | None = None
    error: str = ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--steps", default=",".join(STEPS), help="which questions, separated by commas")
    parser.add_argument("--files", action="append", help="patterns of files, for a repository without cases")
    parser.add_argument("--include", action="append", default=[], help="include folders below the checkout")
    parser.add_argument("--only", default="", help="a regular expression that file and kernel must match")
    parser.add_argument("--sample", type=int, default=70, help="kernels that `code` compiles")
    parser.add_argument("--json", type=Path, help="where the rows go")
    given = parser.parse_args(argv)
    corpus = CORPORA.get(given.name) or Corpus(given.name, tuple(given.files or ["**/*.metal"]), tuple(given.include))
    rows = [*attempts(corpus, given.checkout, given.steps.split(","), given.only, given.sample)]
    print(table(corpus, given.checkout, rows))
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return int(any(row.error for row in rows))


def attempts(corpus: Corpus, checkout: Path, steps: Sequence[str], only: str, sample: int) -> list[Row]:
    """All rows, each printed as soon as it is known."""
    rows: list[Row] = []
    files = sorted({file for pattern in corpus.files for file in checkout.glob(pattern)})
    hosted = [file for file in files if re.search(only, str(file)) and not left_out(corpus, file)]
    if "front" in steps:
        rows += [told(front(corpus, checkout, file)) for file in hosted]
    if "code" in steps:
        rows += code(corpus, checkout, hosted, sample)
    for case in corpus.cases(np.random.default_rng(0)):
        if re.search(only, f"{case.file} {case.kernel}"):
            rows += [
                told(one(corpus, checkout, case)) for step, one in (("run", run), ("check", check)) if step in steps
            ]
    return rows


def left_out(corpus: Corpus, file: Path) -> str | None:
    """Why a file is not tried, if it is not."""
    return next((why for word, why in corpus.left_out if word in file.name), None)


def told(row: Row) -> Row:
    distance = "" if row.distance is None else f" {row.distance:.1e}"
    print(f"{row.step:6}{row.seconds:6.1f} s  {row.file} {row.kernel}{distance} {row.error or 'ok'}", flush=True)
    return row


def library(corpus: Corpus, checkout: Path, file: Path, constants: Any = None) -> Library:
    """The translated file."""
    folders = [checkout / folder for folder in corpus.includes]
    text = file.read_text(encoding="utf-8", errors="replace")
    source = frontend.source(text, name=str(file), include_dirs=folders, constants=constants)
    return Library(frontend.module(source), source)


def attempt(step: str, checkout: Path, file: Path, kernel: str, work: Any) -> Row:
    """`work` gives the kernels or the distance; what it raises is the row's error."""
    start = time.monotonic()
    kernels, distance, error = 0, None, ""
    try:
        kernels, distance, error = work()
    except KernelwrightError as raised:
        lines = [line for line in str(raised).splitlines() if "error" in line] or str(raised).splitlines()
        error = lines[0].replace(f"{checkout}/", "")[:200]
    return Row(step, str(file.relative_to(checkout)), kernel, time.monotonic() - start, kernels, distance, error)


def front(corpus: Corpus, checkout: Path, file: Path) -> Row:
    """All instantiations of a file, without code."""

    def work() -> tuple[int, None, str]:
        translated = library(corpus, checkout, file)
        names = dir(translated)
        for at in range(0, len(names), TOGETHER):
            translated.verify(names[at : at + TOGETHER])
        return len(names), None, ""

    return attempt("front", checkout, file, "", work)


def code(corpus: Corpus, checkout: Path, files: Sequence[Path], sample: int) -> list[Row]:
    """Machine code for a sample over all instantiations: one of each file, the rest wherever the draw falls."""
    draw = np.random.default_rng(1)
    firsts: list[tuple[Path, str]] = []
    others: list[tuple[Path, str]] = []
    for file in files:
        try:
            names = [str(name) for name in draw.permutation(dir(library(corpus, checkout, file)))]
        except KernelwrightError:
            continue  # `front` tells
        firsts += [(file, name) for name in names[:1]]
        others += [(file, name) for name in names[1:]]
    drawn = [others[i] for i in draw.permutation(len(others))[: max(0, sample - len(firsts))]]
    by_file: dict[Path, list[str]] = {}
    for file, name in sorted([*firsts, *drawn]):
        by_file.setdefault(file, []).append(name)
    return [told(row) for file, names in by_file.items() for row in build(corpus, checkout, file, names)]


def build(corpus: Corpus, checkout: Path, file: Path, names: Sequence[str]) -> list[Row]:
    """The kernels of one file together; one by one where they do not compile together."""

    def work(names: Sequence[str]) -> tuple[int, None, str]:
        library(corpus, checkout, file).build(names)
        return len(names), None, ""

    together = attempt("code", checkout, file, " ".join(names), lambda: work(names))
    if not together.error or len(names) == 1:
        return [together]
    return [attempt("code", checkout, file, name, lambda name=name: work([name])) for name in names]


def launch(corpus: Corpus, checkout: Path, case: Case, *, watched: bool) -> tuple[Any, float, str]:
    """Runs a case; returns the report, how far the worst element lies from what is right, and what is wrong."""
    kernel = library(corpus, checkout, checkout / case.file, dict(case.constants))[case.kernel]
    arguments = [item.copy() if isinstance(item, np.ndarray) else item for item in case.arguments]
    same = {id(item): copy for item, copy in zip(case.arguments, arguments, strict=True)}
    arguments = [same[id(item)] for item in case.arguments]  # one address where the case names one array twice
    call = kernel.watched if watched else kernel
    report = call(*arguments, threads=case.grid, group_size=case.group_size, group_memory=case.group_memory)
    worst, error = 0.0, ""
    for index, expected in case.expected.items():
        got = arguments[index]
        values = got.view(np.float32) if got.dtype.kind == "c" else got
        values = values.astype(np.float64).reshape(expected.shape)
        scale = np.abs(expected).max(-1, keepdims=True) if expected.ndim else np.abs(expected)
        away = np.abs(values - expected) / np.maximum(scale, 1e-30)
        distance = float(away.max()) if np.isfinite(away).all() else float("inf")
        worst = max(worst, distance)
        if distance > case.tolerance:
            error = f"off by {distance:.1e}, {np.mean(~(away <= case.tolerance)):.0%} of the values"
    return report, worst, error


def run(corpus: Corpus, checkout: Path, case: Case) -> Row:
    def work() -> tuple[int, float, str]:
        _, distance, error = launch(corpus, checkout, case, watched=False)
        return 1, distance, error

    return attempt("run", checkout, checkout / case.file, case.kernel, work)


def check(corpus: Corpus, checkout: Path, case: Case) -> Row:
    def work() -> tuple[int, float, str]:
        report, distance, error = launch(corpus, checkout, case, watched=True)
        found = f"{len(report.faults)} found: {report.faults[0].message}" if report.faults else ""
        for remark in report.remarks:
            print(f"remark {remark.message}".replace(f"{checkout}/", ""))
        return 1, distance, (found or error).replace(f"{checkout}/", "")[:300]

    return attempt("check", checkout, checkout / case.file, case.kernel, work)


def table(corpus: Corpus, checkout: Path, rows: Sequence[Row]) -> str:
    """A row of docs/metal-coverage.md for each step, and each failure."""
    lines = [f"{corpus.repository}", "| step | tried | ok | kernels |", "|---|---|---|---|"]
    for step in STEPS:
        mine = [row for row in rows if row.step == step]
        if mine:
            good = [row for row in mine if not row.error]
            lines.append(f"| {step} | {len(mine)} | {len(good)} | {sum(row.kernels for row in good)} |")
    lines += [f"- {row.step} {row.file} {row.kernel}: {row.error}" for row in rows if row.error]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
