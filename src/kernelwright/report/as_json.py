"""What `--json` prints. docs/json.md says field by field what this builds, and a test holds the two together."""

from pathlib import Path
from typing import Any

from kernelwright.records import Comparison, Entry, Finding, Outcome, Verdict, strict
from kernelwright.report.wording import BASELINES, labels, ranked


def outcome_json(outcome: Outcome, artifact: Path | None = None, report: Path | None = None) -> dict[str, Any]:
    """The document of `kernelwright optimize --json`."""
    best = outcome.best
    facts = next((entry.verdict.environment.facts for entry in outcome.entries), None)
    return strict(
        {
            "problem": {
                "name": outcome.problem.name,
                "origin": outcome.problem.origin,
                "digest": outcome.problem.digest,
            },
            "target": outcome.target,
            "device": None if facts is None else facts.name,
            "candidates": [_candidate(entry) for entry in ranked(outcome)],
            "best": None if best is None else _best(best),
            "reason": outcome.reason,
            "skipped": [{"writer": writer, "why": why} for writer, why in outcome.skipped],
            "artifact": None if artifact is None else str(artifact),
            "report": None if report is None else str(report),
            "run": outcome.run,
        }
    )


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The document of `kernelwright judge --json`."""
    timing = verdict.timing
    return strict(
        {
            "status": verdict.status.value,
            "stage": verdict.stage.value,
            "confirmed": verdict.confirmed,
            "findings": [_finding(finding) for finding in verdict.findings],
            "timing": None
            if timing is None
            else {
                "median_us": timing.median_us,
                "quartiles_us": [timing.quantile_us(0.25), timing.quantile_us(0.75)],
                "samples_us": list(timing.samples_us),
                "method": timing.method,
                "cold_cache": timing.cold_cache,
                "resolution_us": timing.resolution_us,
            },
            "comparisons": [
                {
                    "baseline": item.baseline,
                    "median_us": item.timing.median_us,
                    "speedup": item.speedup,
                    "interval": [item.low, item.high],
                }
                for item in verdict.comparisons
            ],
            "labels": list(labels(verdict)),
            "log": verdict.log,
        }
    )


def _candidate(entry: Entry) -> dict[str, Any]:
    candidate, verdict = entry.candidate, entry.verdict
    return {
        "writer": candidate.writer,
        "label": candidate.label,
        "status": verdict.status.value,
        "stage": verdict.stage.value,
        "median_us": None if verdict.timing is None else verdict.timing.median_us,
        "speedup": _speedup(verdict),
        "interval": _interval(verdict.best_baseline),
        "labels": list(labels(verdict)),
        "findings": [_finding(finding) for finding in verdict.findings],
        "digest": candidate.digest,
    }


def _best(entry: Entry) -> dict[str, Any]:
    verdict = entry.verdict
    return {
        "writer": entry.candidate.writer,
        "label": entry.candidate.label,
        "status": verdict.status.value,
        "confirmed": verdict.confirmed,
        "median_us": None if verdict.timing is None else verdict.timing.median_us,
        "speedup": _speedup(verdict),
        "interval": _interval(verdict.best_baseline),
        "labels": list(labels(verdict)),
        "digest": entry.candidate.digest,
    }


def _speedup(verdict: Verdict) -> dict[str, float | None]:
    compared = {**{name: verdict.speedup(name) for name in BASELINES}, "best_baseline": verdict.best_baseline}
    return {name: None if item is None else item.speedup for name, item in compared.items()}


def _interval(comparison: Comparison | None) -> list[float] | None:
    return None if comparison is None else [comparison.low, comparison.high]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "ok": finding.ok,
        "weight": finding.weight.value,
        "message": finding.message,
        "numbers": dict(finding.numbers),
    }
