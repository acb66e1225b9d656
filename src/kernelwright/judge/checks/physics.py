"""It is no faster than its bytes can move."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class PhysicsCheck:
    """The bytes that a perturbation shows to matter, at the bandwidth of the fastest memory they fit, take a least
    time; whoever is faster has not looked at them. Flops are no argument: algebra may be cleverer than the judge."""

    name = "physics"
    weight = Weight.GATE
    principle = "H"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.timing is None or not evidence.floor_us:
            return None
        median, floor = evidence.timing.median_us, evidence.floor_us
        numbers = (("median_us", median), ("floor_us", floor), ("bytes", float(evidence.floor_bytes)))
        if median < floor:
            message = (
                f"{median:.2f} us a call, but {evidence.floor_bytes} bytes that the result depends on cannot be moved "
                f"in less than {floor:.2f} us here"
            )
            return Finding(self.name, False, message, self.weight, Status.CHEATED, numbers)
        return Finding(self.name, True, "slower than its bytes take to move", self.weight, numbers=numbers)
