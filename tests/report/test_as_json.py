"""The documents of --json: strict, complete, and as docs/json.md describes them."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelwright.records import Finding, Outcome
from kernelwright.report import bench_json, outcome_json, verdict_json

DOCS = Path(__file__).parents[2] / "docs" / "json.md"


def paths(value: Any, name: str = "") -> set[str]:
    """Every field of a document, written as docs/json.md writes them. `numbers` is open."""
    found = {name} if name and not isinstance(value, dict) else set()
    if isinstance(value, dict):
        if name.endswith("numbers"):
            return {name}
        if name.split(".")[-1] in ("best", "timing"):
            found.add(name)
        for key, item in value.items():
            found |= paths(item, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                found |= paths(item, f"{name}[]") - {f"{name}[]"}
    return found


def described(verb: str) -> set[str]:
    section = DOCS.read_text().split(f"\n## {verb}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def strictly(document: Any) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


def test_optimize_is_as_described(outcome: Outcome) -> None:
    document = strictly(outcome_json(outcome, Path("out"), Path("report.html")))
    assert paths(document) == described("optimize")


def test_judge_is_as_described(outcome: Outcome) -> None:
    assert paths(strictly(verdict_json(outcome.best.verdict))) == described("judge")


def test_bench_is_as_described(rows) -> None:
    assert paths(strictly(bench_json(rows))) == described("bench")


def test_the_numbers_are_those_of_the_verdict(outcome: Outcome) -> None:
    document = outcome_json(outcome)
    best, verdict = document["best"], outcome.best.verdict
    assert document["problem"]["name"] == "VisionAttention" and document["device"] == "AMD EPYC 9R14"
    assert best["writer"] == "template" and best["confirmed"] is True
    assert best["median_us"] == verdict.timing.median_us
    assert best["speedup"] == {
        "eager": verdict.speedup("eager").speedup,
        "inductor": verdict.speedup("inductor").speedup,
        "onnxruntime": None,
        "openvino": None,
        "best_baseline": verdict.best_baseline.speedup,
    }
    assert best["interval"] == [verdict.best_baseline.low, verdict.best_baseline.high]
    assert [item["status"] for item in document["candidates"]][-3:] == ["WRONG_VALUES", "COMPILE_ERROR", "CHEATED"]
    assert document["candidates"][0]["digest"] == best["digest"]
    assert document["skipped"] == [{"writer": "tinygrad", "why": outcome.skipped[0][1]}]


def test_without_a_winner_best_is_null(fruitless: Outcome) -> None:
    document = outcome_json(fruitless)
    assert document["best"] is None and "eager" in document["reason"]
    rejected = verdict_json(fruitless.entries[-1].verdict)
    assert rejected["timing"] is None and rejected["comparisons"] == []


def test_an_empty_run_has_a_document(outcome: Outcome) -> None:
    document = outcome_json(replace(outcome, entries=(), best=None))
    assert document["candidates"] == [] and document["device"] is None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_json_is_null(outcome: Outcome, number: float) -> None:
    finding = Finding("values", True, "m", numbers=(("max_abs", number), ("rows", 3.0)))
    document = strictly(verdict_json(replace(outcome.best.verdict, findings=(finding,))))
    assert document["findings"][0]["numbers"] == {"max_abs": None, "rows": 3.0}
