"""The machine was quiet while it was timed."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class QuietClockCheck:
    """Few samples were taken while other work stood on the processors. Where many were, the interval of a comparison
    is wide and decides less; nothing is held against the candidate."""

    name = "quiet_clock"
    weight = Weight.INFORM
    principle = "G"

    def find(self, evidence: Evidence) -> Finding | None:
        if evidence.timing is None:
            return None
        count = len(evidence.timing.samples_us)
        numbers = (("disturbed", float(evidence.disturbed)), ("samples", float(count)))
        if evidence.short_of_time or evidence.disturbed > 0.25 * count:
            cut = "; rounds were left out, the time was up" if evidence.short_of_time else ""
            message = f"disturbed: other work ran beside {evidence.disturbed} of {count} samples{cut}"
            return Finding(self.name, False, message, self.weight, numbers=numbers)
        return Finding(self.name, True, "the machine was quiet", self.weight, numbers=numbers)
