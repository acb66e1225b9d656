"""The work is done when the call returns."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class LateWorkCheck:
    """Copying the results out costs no more than a plain copy. What it costs beyond that is added to the time of the
    call in any case, so putting work off gains nothing; this says that it was tried."""

    name = "late_work"
    weight = Weight.INFORM
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.timing is None:
            return None
        charged, whole = evidence.charged_us, evidence.timing.median_us
        if charged > 0.2 * whole and charged > 20.0:
            message = f"{charged:.0f} of {whole:.0f} us went by while the results were copied out; they are counted"
            return Finding(self.name, False, message, self.weight)
        return Finding(self.name, True, "results are ready when the call returns", self.weight)
