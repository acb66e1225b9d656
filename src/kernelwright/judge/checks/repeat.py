"""The same inputs give the same bits again."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class RepeatCheck:
    """A second call with equal inputs in other memory gives equal bits. Sums by atomics honestly differ, so it informs;
    that both results are right is what the values check demands."""

    name = "repeat"
    weight = Weight.INFORM
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        tried = [call for call in evidence.answered if call.repeat_equal is not None]
        if not tried:
            return None
        if all(call.repeat_equal for call in tried):
            return Finding(self.name, True, "a repeated call gives the same bits", self.weight)
        return Finding(self.name, False, "a repeated call gives other bits (both within the budget)", self.weight)
