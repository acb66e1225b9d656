"""Says how good the oracle is."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class OracleCheck:
    """Whether the truth was computed in float64 throughout, and whether all families had something to say."""

    name = "oracle"
    weight = Weight.INFORM
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.oracle_note:
            return Finding(self.name, False, evidence.oracle_note, self.weight)
        mute = sorted({call.case.family for call in evidence.answered if not call.informative})
        if mute:
            message = f"the reference itself gives no finite, decided result for: {', '.join(mute)}"
            return Finding(self.name, False, message, self.weight)
        return Finding(self.name, True, "the oracle is float64 throughout", self.weight) if evidence.answered else None
