"""It builds, runs and ends."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class RunsCheck:
    """No error while building, constructing, taking weights or running, within the limits of time and memory."""

    name = "runs"
    weight = Weight.GATE
    principle = "A"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.failure is not None:
            status, message = evidence.failure
            if evidence.baseline:
                message = f"not measured: {message}"
            return Finding(self.name, False, message, self.weight, status)
        for call in evidence.calls:
            if call.error and call.case.layout == "contiguous" and not call.reloaded:
                return Finding(self.name, False, f"{call.error} ({told(call.case)})", Weight.BAR, Status.RUNTIME_ERROR)
        return Finding(self.name, True, "ran to the end", self.weight) if evidence.answered else None
