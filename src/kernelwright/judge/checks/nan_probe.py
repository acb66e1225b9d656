"""A NaN that goes in comes out where the reference has it."""

from kernelwright.judge.evidence import Evidence
from kernelwright.judge.wording import wrong
from kernelwright.records import Finding, Status, Weight


class NanProbeCheck:
    """A few inputs are NaN: the results are NaN where oracle and reference are, and right everywhere else.

    For a baseline it is a bar: Inductor's C++ code assumes finite numbers.
    """

    name = "nan_probe"
    weight = Weight.GATE
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        weight = Weight.BAR if evidence.baseline else self.weight
        calls = [call for call in evidence.answered if call.case.family == "nan_probe" and not call.timed]
        for call in calls:
            for place, output in enumerate(call.outputs):
                if output.difference is not None and output.difference.wrong:
                    return Finding(self.name, False, wrong(call, place), weight, Status.WRONG_VALUES)
        if not calls:
            return None
        return Finding(self.name, True, "NaN comes out exactly where the reference has it", weight)
