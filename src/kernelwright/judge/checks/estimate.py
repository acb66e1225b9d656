"""What a chip that is not here would need at least."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class EstimateCheck:
    """For hosted Metal kernels: the least time a named chip needs for what a watched call moved and computed, launch
    after launch (metal/roofline.py). An estimate and no time: torch's own operators in between are not in it."""

    name = "estimate"
    weight = Weight.INFORM
    principle = "H"

    def find(self, evidence: Evidence) -> Finding | None:
        seen = evidence.watched
        if seen is None or not seen.launches or seen.failure or seen.faults:
            return None
        message = f"estimate, not measured: its kernels take at least {seen.estimate_us:.3g} us on an {seen.chip}"
        return Finding(self.name, True, message, self.weight, numbers=(("estimate_us", seen.estimate_us),))
