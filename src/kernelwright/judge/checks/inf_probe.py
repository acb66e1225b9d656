"""Infinite inputs give what they give in the reference."""

from kernelwright.judge.evidence import Evidence
from kernelwright.judge.wording import wrong
from kernelwright.records import Finding, Status, Weight


class InfProbeCheck:
    """A few inputs are infinite: results that are finite or infinite in the reference are so in the candidate.

    Where the reference has NaN (infinity minus infinity, zero times infinity) the order of operations decides, which
    is not part of a function's meaning: such a difference informs. For a baseline all of it is a bar.
    """

    name = "inf_probe"
    weight = Weight.GATE
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        weight = Weight.BAR if evidence.baseline else self.weight
        calls = [call for call in evidence.answered if call.case.family == "inf_probe" and not call.timed]
        lost = 0
        for call in calls:
            for place, output in enumerate(call.outputs):
                found = output.difference
                if found is None:
                    continue
                lost += found.lost
                if found.wrong > found.lost:
                    return Finding(self.name, False, wrong(call, place), weight, Status.WRONG_VALUES)
        if not calls:
            return None
        if lost:
            message = f"{lost} elements are NaN in the reference for infinite inputs and something else here"
            return Finding(self.name, False, message, Weight.INFORM)
        return Finding(self.name, True, "infinite inputs give what the reference gives", weight)
