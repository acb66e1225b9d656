"""It is no faster than its bytes can move."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class PhysicsCheck:
    """The bytes that a perturbation shows to matter, at the bandwidth of the fastest memory they fit, take a least
    time; whoever is faster has not looked at them. Flops are no argument: algebra may be cleverer than the judge.

    Rejects only if nearly all samples and a call on its own lie below the floor: a slope between two disturbed
    windows may be anything.
    """

    name = "physics"
    weight = Weight.GATE
    principle = "H"

    def find(self, evidence: Evidence) -> Finding | None:
        timing, floor = evidence.timing, evidence.floor_us
        if timing is None or not floor:
            return None
        slowest = max(timing.quantile_us(0.9), evidence.single_us or 0.0)
        numbers = (("slowest_us", slowest), ("floor_us", floor), ("bytes", float(evidence.floor_bytes)))
        if slowest < floor and floor > timing.resolution_us:
            message = (
                f"{slowest:.2f} us a call, but the {evidence.floor_bytes} bytes that the result depends on cannot be "
                f"moved in less than {floor:.2f} us here"
            )
            if evidence.floor_disturbed:
                message += "; not held against it, as that was measured while other work ran on this machine"
                return Finding(self.name, False, message, Weight.INFORM, numbers=numbers)
            return Finding(self.name, False, message, self.weight, Status.CHEATED, numbers)
        return Finding(self.name, True, "slower than its bytes take to move", self.weight, numbers=numbers)
