"""Inputs that are not contiguous are either served or refused."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class LayoutsCheck:
    """A kernel may refuse inputs whose strides its contract does not name, by raising; that informs. Silently wrong
    values are the values check's business."""

    name = "layouts"
    weight = Weight.INFORM
    principle = "F"

    def find(self, evidence: Evidence) -> Finding | None:
        tried = [call for call in evidence.calls if call.case.layout != "contiguous"]
        for call in tried:
            if call.error:
                message = f"refuses inputs in another layout ({told(call.case)}): {call.error}"
                return Finding(self.name, False, message, self.weight)
        return Finding(self.name, True, "takes strided and offset inputs", self.weight) if tried else None
