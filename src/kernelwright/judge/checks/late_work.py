"""The work is done when the call returns."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight

_CERTAIN_US = 700.0
_SHARE = 0.5


class LateWorkCheck:
    """Copying the results out costs no more than a plain copy. Which calls' results are wanted is told when the clock
    has stopped, so who puts work off does all of it then, for those; its share is added to the time of each call. Where
    it is a large part of that time, and no disturbance, the claim is rejected.
    """

    name = "late_work"
    weight = Weight.INFORM
    principle = "B"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.timing is None:
            return None
        charged, whole = evidence.charged_us, evidence.timing.median_us
        late = evidence.late_us / max(evidence.late_calls, 1)
        if evidence.late_us > _CERTAIN_US and late > _SHARE * (whole - charged):
            message = (
                f"copying the results of a call out took {late:.0f} us more than a plain copy, the call itself claims "
                f"to take {whole - charged:.0f} us: results are computed when they are asked for"
            )
            return Finding(self.name, False, message, Weight.GATE, Status.CHEATED)
        if charged > 0.2 * whole and charged > 20.0:
            message = f"{charged:.0f} of {whole:.0f} us went by while the results were copied out; they are counted"
            return Finding(self.name, False, message, self.weight)
        return Finding(self.name, True, "results are ready when the call returns", self.weight)
