"""The results have the dtypes the reference has as its user runs it."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class DtypeCheck:
    """Dtype of every tensor returned."""

    name = "dtype"
    weight = Weight.GATE
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        for call in evidence.answered:
            for place, output in enumerate(call.outputs):
                if output.dtype != output.expected_dtype:
                    return Finding(
                        self.name,
                        False,
                        f"output {place} is {output.dtype}, expected {output.expected_dtype} ({told(call.case)})",
                        self.weight,
                        Status.WRONG_DTYPE,
                    )
        if not evidence.answered:
            return None
        return Finding(self.name, True, "dtypes are the reference's", self.weight, Status.WRONG_DTYPE)
