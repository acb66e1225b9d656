"""Every element of every result was written."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class UnwrittenCheck:
    """Results are copied into memory the judge filled with a secret pattern: what still holds it was not delivered."""

    name = "unwritten"
    weight = Weight.GATE
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        for call in evidence.answered:
            for place, output in enumerate(call.outputs):
                if output.unwritten:
                    return Finding(
                        self.name,
                        False,
                        f"parts of output {place} were never written ({told(call.case)})",
                        self.weight,
                        Status.CHEATED,
                    )
        if evidence.timed_unwritten:
            return Finding(
                self.name,
                False,
                f"{evidence.timed_unwritten} timed calls left an output unwritten",
                self.weight,
                Status.CHEATED,
            )
        if not evidence.answered:
            return None
        return Finding(self.name, True, "every element was written", self.weight, Status.CHEATED)
