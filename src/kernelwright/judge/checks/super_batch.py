"""Each call does its own work."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight

_RATIO = 3.0
_LEAST_US = 100.0


class SuperBatchCheck:
    """One more call in a row of calls costs about what a call costs on its own. A call that also computes the answers
    of later ones would show as a single call far dearer than the slope.

    It informs: all the work stays inside the window that is timed, so nothing is gained but what batching saves, while
    a wake-up on a busy machine makes a single call dear as well.
    """

    name = "super_batch"
    weight = Weight.INFORM
    principle = "C"

    def find(self, evidence: Evidence) -> Finding | None:
        timing, single = evidence.timing, evidence.single_us
        if timing is None or not single or evidence.baseline:
            return None
        slope = timing.median_us
        # Whatever the machine adds to a single call, it adds to the baseline's too.
        usual = max(0.0, (evidence.baseline_single_us or 0.0) - (evidence.baseline_us or 0.0))
        excess = single - usual
        numbers = (("single_us", single), ("slope_us", slope))
        if excess > _RATIO * slope and excess > _LEAST_US:
            message = f"a call alone takes {single:.0f} us, one more in a row only {slope:.1f} us"
            return Finding(self.name, False, message, self.weight, Status.CHEATED, numbers)
        return Finding(self.name, True, "a call costs the same alone and in a row", self.weight, numbers=numbers)
