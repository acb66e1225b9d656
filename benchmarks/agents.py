"""Judges what coding agents wrote for problems of the suite, one task after the other, and makes the swarm's table.

    python benchmarks/agents.py AGENT=FOLDER... [--json benchmarks/results/swarm/agents.json]

AGENT is what wrote it. Its FOLDER holds PROBLEM-TARGET/N, the N-th candidate for benchmarks/suite/PROBLEM.py, as it was
handed to `kernelwright agent submit`. Agents work side by side, on a machine that is then anything but quiet: what they
heard of times is worth little, and the table is of what is judged here. Metal is hosted where there is no Mac and has
no times. Every candidate's text is in the result.
"""

import argparse
import json
import subprocess
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright import problems
from kernelwright.app.judge import read_candidate
from kernelwright.app.report import attempts_in
from kernelwright.archive import Archive
from kernelwright.judge import JUDGE_VERSION
from kernelwright.records import Candidate, Entry, Outcome, Problem, strict
from kernelwright.report.swarm import ledger, ledger_json, ledger_sentence
from kernelwright.search import search, select
from kernelwright.targets import environment
from kernelwright.writers.replay import ReplayWriter

SUITE = Path(__file__).parent / "suite"
BUDGET_S = 600.0


@cache
def loaded(name: str) -> Problem:
    """A problem of the suite."""
    return problems.load(str(SUITE / f"{name}.py"))


def handed_in(agents: dict[str, Path]) -> dict[tuple[str, str], list[Candidate]]:
    """By problem and device, in the order of each agent's attempts; an attempt handed in twice is one."""
    found: dict[tuple[str, str], list[Candidate]] = defaultdict(list)
    for agent, folder in agents.items():
        for place in sorted(folder.glob("*-*/[0-9]*/model.py")):
            problem, _, device = place.parent.parent.name.rpartition("-")
            candidate = read_candidate(place, loaded(problem), device)
            candidate = replace(candidate, writer=agent, label=place.parent.name, note=f"attempt {place.parent.name}")
            if candidate.digest not in {other.digest for other in found[problem, device]}:
                found[problem, device].append(candidate)
    return dict(sorted(found.items()))


def judged(name: str, device: str, candidates: list[Candidate], archive: Archive) -> Outcome:
    """All of them, beside eager and torch.compile; the best is confirmed."""
    stock = ["eager", "inductor"] if device == "cpu" else ["eager"]
    return search(
        loaded(name), device, writers=[*stock, ReplayWriter(candidates)], budget_s=BUDGET_S, archive=archive, again=True
    )


def row(name: str, outcome: Outcome) -> dict[str, Any]:
    """One task: baselines, and of each candidate what came of it."""
    rivals = select.baselines(outcome.entries)
    mine = [entry for entry in outcome.entries if not entry.candidate.baseline]
    return {
        "problem": name,
        "target": outcome.target,
        "baselines_us": {
            rival.candidate.title: rival.verdict.timing.median_us for rival in rivals if rival.verdict.timing
        },
        "best": outcome.best.candidate.digest if outcome.best else None,
        "reason": outcome.reason,
        "candidates": [told(entry, rivals) for entry in mine],
    }


def told(entry: Entry, rivals: tuple[Entry, ...]) -> dict[str, Any]:
    """A candidate with its text."""
    verdict = entry.verdict
    speedup, low = select.lead(verdict, rivals) if verdict.timing and rivals else (None, None)
    return {
        "writer": entry.candidate.writer,
        "candidate": entry.candidate.digest,
        "status": verdict.status.value,
        "reason": verdict.reason,
        "confirmed": verdict.confirmed,
        "median_us": verdict.timing.median_us if verdict.timing else None,
        "speedup": speedup,
        "low": low,
        "sources": {source.path: source.text for source in entry.candidate.sources},
    }


def main() -> None:
    """Judges everything and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="+", metavar="AGENT=FOLDER")
    parser.add_argument("--target", choices=["cpu", "metal"], help="only this one")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    agents = {name: Path(folder) for name, _, folder in (item.partition("=") for item in asked.agents)}
    archive, rows = Archive(None), []
    for (name, device), candidates in handed_in(agents).items():
        if asked.target in (None, device):
            outcome = judged(name, device, candidates, archive)
            rows.append(row(name, outcome))
            print(f"{name} on {device}: {len(candidates)} candidates; {outcome.reason}", flush=True)
    ledgers = {}
    for device in ("cpu", "metal"):
        ledgers[device] = ledger([attempt for attempt in attempts_in(archive) if attempt.device == device])
        print(f"{device}: {ledger_sentence(ledgers[device])}")
        for member in ledgers[device].members:
            print(f"  {member.name}: {member.problems} problems, {member.attempts} tries, {member.returned:.2f}x")
    if asked.json:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        here = environment("cpu")
        document = {
            "command": "python benchmarks/agents.py",
            "commit": commit,
            "judge": JUDGE_VERSION,
            "machine": here.facts.name,
            "threads": here.threads,
            "torch": here.torch,
            "ledgers": {device: ledger_json(found) for device, found in ledgers.items()},
            "tasks": rows,
        }
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(strict(document), indent=1) + "\n")


if __name__ == "__main__":
    main()
