"""The work is done when the call returns."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight

_CERTAIN_US = 700.0
"""Several times what gathering eight parts of 64 kB out of scattered memory honestly takes."""


class LateWorkCheck:
    """Copying the results out costs no more than a plain copy. What it costs beyond that is added to the time of the
    call in any case; this says that it was tried. Only parts of a few calls are copied on the clock, so who computes
    nothing but those would still gain: where they take longer than twice the call claims to, the claim is rejected.
    """

    name = "late_work"
    weight = Weight.INFORM
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.timing is None:
            return None
        charged, whole = evidence.charged_us, evidence.timing.median_us
        if evidence.late_us > max(2 * whole, _CERTAIN_US):
            message = (
                f"copying parts of the results out took {evidence.late_us:.0f} us more than a plain copy, "
                f"a call claims to take {whole:.0f} us: results are computed when they are asked for"
            )
            return Finding(self.name, False, message, Weight.GATE, Status.CHEATED)
        if charged > 0.2 * whole and charged > 20.0:
            message = f"{charged:.0f} of {whole:.0f} us went by while the results were copied out; they are counted"
            return Finding(self.name, False, message, self.weight)
        return Finding(self.name, True, "results are ready when the call returns", self.weight)
