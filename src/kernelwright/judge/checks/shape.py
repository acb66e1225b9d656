"""The results have the reference's structure and shapes."""

from kernelwright.judge.cases import told
from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class ShapeCheck:
    """Nest and shape of everything returned."""

    name = "shape"
    weight = Weight.GATE
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        for call in evidence.answered:
            if call.nest != call.expected_nest:
                return self._failed(
                    f"the result is nested as {call.nest}, the reference's as {call.expected_nest} ({told(call.case)})"
                )
            for place, output in enumerate(call.outputs):
                if output.shape != output.expected_shape:
                    return self._failed(
                        f"output {place} has shape {list(output.shape)}, expected {list(output.expected_shape)} "
                        f"({told(call.case)})"
                    )
        if not evidence.answered:
            return None
        return Finding(self.name, True, "structure and shapes are the reference's", self.weight, Status.WRONG_SHAPE)

    def _failed(self, message: str) -> Finding:
        return Finding(self.name, False, message, self.weight, Status.WRONG_SHAPE)
