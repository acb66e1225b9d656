"""Every result is an ordinary tensor on the device, in memory of its own."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class StorageCheck:
    """Class, device and memory of what is returned: no lazy subclass, no input or weight handed back, no guard zone
    of the judge's memory touched. What the reference itself hands back, a candidate may."""

    name = "storage"
    weight = Weight.GATE
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        for call in evidence.answered:
            if not call.guards:
                return self._failed(f"memory beside an output was written ({told(call.case)})")
            for place, output in enumerate(call.outputs):
                if output.kind not in ("Tensor", "Parameter"):
                    return self._failed(
                        f"output {place} is a {output.kind}, not a plain tensor: work may be put off until it is read "
                        f"({told(call.case)})"
                    )
                if output.device != output.expected_device:
                    return self._failed(f"output {place} is on {output.device}, expected {output.expected_device}")
                if output.shares and not output.may_share:
                    return self._failed(f"output {place} is no memory of its own but {output.shares}")
                if not output.readable:
                    return self._failed(f"output {place} could not be copied out of the candidate's process")
        if not evidence.answered:
            return None
        return Finding(self.name, True, "results are plain tensors in memory of their own", self.weight, Status.CHEATED)

    def _failed(self, message: str) -> Finding:
        return Finding(self.name, False, message, self.weight, Status.CHEATED)
