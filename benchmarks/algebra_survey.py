"""Which problems each rule of algebra fires on, as a table for docs/algebra.md.

    python benchmarks/algebra_survey.py kernelbench:DIR --level 2 [--problems 1-100]
    python benchmarks/algebra_survey.py suite

Problems are captured at `--scale auto`; nothing is run or timed.
"""

import argparse
from collections import defaultdict

from kernelwright.app.bench import list_references
from kernelwright.errors import KernelwrightError
from kernelwright.graph import RULES, capture_problem, rewrite
from kernelwright.problems import load


def main() -> None:
    options = argparse.ArgumentParser(description="Which problems each rule of algebra fires on.")
    options.add_argument("source", help='"suite", or "kernelbench:DIR"')
    options.add_argument("--level", default="2")
    options.add_argument("--problems", default=None)
    chosen = options.parse_args()
    fired: defaultdict[str, list[str]] = defaultdict(list)
    refused: list[str] = []
    for reference in list_references(chosen.source, chosen.level, chosen.problems):
        name = reference.partition("@")[0].rpartition(":")[2].removeprefix("level").replace("/", "-")
        try:
            problem = load(reference, scale="auto" if reference.startswith("kernelbench:") else None)
            applied = rewrite(capture_problem(problem)).applied
        except KernelwrightError as error:
            refused.append(f"{name}: {error}")
            continue
        for rule in dict.fromkeys(applied):
            fired[rule].append(name)
    print("| rule | leaves work out | problems |\n|---|---|---|")
    for rule in RULES:
        if fired[rule.name]:
            print(f"| {rule.name} | {'yes' if rule.drops_work else ''} | {', '.join(fired[rule.name])} |")
    for line in refused:
        print(f"not captured: {line}")


if __name__ == "__main__":
    main()
