"""Says where a problem cannot tell an answer from none."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class DegenerateCheck:
    """Zeros, a constant, another input's result or other weights' result pass: a speedup here says little. The verdict
    carries the label "degenerate problem", and tables keep it apart."""

    name = "degenerate"
    weight = Weight.INFORM
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        if not evidence.survey:
            return None
        return Finding(self.name, not evidence.degenerate, evidence.survey, self.weight)
