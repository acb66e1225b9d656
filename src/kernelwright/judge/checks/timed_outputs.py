"""What was timed was computed."""

from kernelwright.judge.evidence import Evidence
from kernelwright.judge.wording import wrong
from kernelwright.records import Finding, Status, Weight


class TimedOutputsCheck:
    """Calls picked at random from those under the clock are verified like any other: no second road for timing."""

    name = "timed_outputs"
    weight = Weight.GATE
    principle = "C"

    def find(self, evidence: Evidence) -> Finding | None:
        calls = [call for call in evidence.answered if call.timed]
        for call in calls:
            for place, output in enumerate(call.outputs):
                if output.difference is None:
                    message = f"a timed call returned another shape or dtype as output {place}"
                    return Finding(self.name, False, message, self.weight, Status.CHEATED)
                if output.difference.wrong:
                    message = f"right when verified, wrong when timed: {wrong(call, place)}"
                    return Finding(self.name, False, message, self.weight, Status.CHEATED)
        if not calls:
            return None
        return Finding(self.name, True, f"{len(calls)} of the timed calls were verified", self.weight, Status.CHEATED)
