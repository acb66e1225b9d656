"""Each call does its own work."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight

_RATIO = 3.0
_RESOLUTION_US = 30.0


class SuperBatchCheck:
    """One more call in a row of calls costs what a call costs on its own. A first call that computes the answers of
    later ones would make the slope far smaller than the single call. Inputs are handed over one call at a time, so a
    candidate would have to reach beyond its own; constant costs of a single call (a thread pool that wakes) are
    allowed for by the factor and a few tens of microseconds."""

    name = "super_batch"
    weight = Weight.GATE
    principle = "C"

    def find(self, evidence: Evidence) -> Finding | None:
        timing, single = evidence.timing, evidence.single_us
        if timing is None or not single or evidence.baseline:
            return None
        slope = timing.median_us
        reference = evidence.baseline_single_us or 0.0
        beside = evidence.baseline_us or 0.0
        # Whatever the machine adds to a single call, it adds to the baseline's too.
        usual = max(0.0, reference - beside)
        excess = single - usual - _RESOLUTION_US
        numbers = (("single_us", single), ("slope_us", slope))
        if excess > _RATIO * slope and excess > 100.0:
            message = (
                f"a call alone takes {single:.0f} us, one more in a row only {slope:.1f} us: calls are not independent"
            )
            return Finding(self.name, False, message, self.weight, Status.CHEATED, numbers)
        return Finding(self.name, True, "a call costs the same alone and in a row", self.weight, numbers=numbers)
