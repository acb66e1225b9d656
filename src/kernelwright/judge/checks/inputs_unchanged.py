"""The inputs are as they were."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class InputsUnchangedCheck:
    """Checksums of all inputs before and after each call, timed ones included."""

    name = "inputs_unchanged"
    weight = Weight.GATE
    principle = "J"

    def find(self, evidence: Evidence) -> Finding | None:
        for call in evidence.answered:
            if call.inputs_changed:
                leaves = ", ".join(str(leaf) for leaf in call.inputs_changed)
                return self._failed(f"the call changed input {leaves} ({told(call.case)})")
        if evidence.timed_changed:
            return self._failed(f"{evidence.timed_changed} timed calls changed an input")
        if not evidence.answered:
            return None
        return Finding(self.name, True, "no input was changed", self.weight, Status.CHEATED)

    def _failed(self, message: str) -> Finding:
        return Finding(self.name, False, message, self.weight, Status.CHEATED)
