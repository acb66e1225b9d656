"""Proposes the reference's own graph after algebra, as plain PyTorch text."""

from kernelwright.errors import CaptureError
from kernelwright.records import Brief, Candidate, SourceFile
from kernelwright.writers.writer import Bench


class AlgebraWriter:
    """Captures the reference, rewrites its graph by sound rules and writes it down as text.

    Even where no rule applies the text can be faster: it computes no dead results and calls no nested modules.
    """

    name = "algebra"
    baseline = False
    repeats = True

    def missing(self, target: str) -> str | None:
        return None if target == "cpu" else f"algebra writes for the CPU only, not for {target}"

    async def write(self, brief: Brief, bench: Bench) -> None:
        for candidate in candidates(brief)[: brief.attempts]:
            await bench.submit(candidate)


def candidates(brief: Brief) -> list[Candidate]:
    """What there is to propose, the likeliest to win first. Empty for a problem whose graph cannot be captured."""
    from kernelwright.graph import CAUSAL, RULES, capture_problem, print_module, rewrite

    if brief.problem.opaque or brief.problem.numerics.training:
        return []
    try:
        captured = capture_problem(brief.problem)
    except CaptureError:
        return []
    if captured.mutations:
        return []
    exact = rewrite(captured, RULES)
    swift = rewrite(captured, (*RULES, CAUSAL))
    found = []
    if CAUSAL.name in swift.applied:
        found.append((swift, "causal"))
    if exact.applied or _calls(exact.capture) > 1:
        found.append((exact, ""))
    proposed = []
    for rewriting, label in found:
        try:
            text = print_module(rewriting.capture)
        except CaptureError:  # a constant too large to be written down
            continue
        applied = ", ".join(dict.fromkeys(rewriting.applied)) or "no rule applies; the graph as captured"
        proposed.append(
            Candidate(
                writer=AlgebraWriter.name,
                target=f"torch@{brief.target}",
                sources=(SourceFile("model.py", text), SourceFile("reference.py", brief.problem.source)),
                label=label,
                note=f"rules: {applied}",
                algorithmic=rewriting.drops_work,
            )
        )
    return proposed


def _calls(captured: object) -> int:
    """How many operators the graph calls, views aside."""
    from kernelwright.graph import Capture
    from kernelwright.graph.node import VIEWS

    assert isinstance(captured, Capture)
    return sum(node.op == "call_function" and node.target not in VIEWS for node in captured.graph.graph.nodes)
