"""The results follow the weights."""

from kernelwright.judge.evidence import Evidence
from kernelwright.judge.wording import wrong
from kernelwright.records import Finding, Status, Weight


class WeightsFollowedCheck:
    """After `load_state_dict` of other weights and prepare(), and after going back to the first, results are right.

    What is folded from the weights in the constructor, or assumes that a fresh norm has ones and zeros, is wrong here.
    For a baseline it is a bar: Inductor's mode "freezing" folds the weights, and is timed with those it has.
    """

    name = "weights_followed"
    weight = Weight.GATE
    principle = "D"

    def find(self, evidence: Evidence) -> Finding | None:
        weight = Weight.BAR if evidence.baseline else self.weight
        for call in evidence.calls:
            if call.reloaded and call.error:
                message = f"other weights are refused: {call.error}"
                return Finding(self.name, False, message, weight, Status.RUNTIME_ERROR)
        calls = [call for call in evidence.answered if call.reloaded]
        for call in calls:
            for place, output in enumerate(call.outputs):
                if output.difference is not None and output.difference.wrong and call.informative:
                    message = f"after the weights changed, {wrong(call, place)}"
                    return Finding(self.name, False, message, weight, Status.WRONG_VALUES)
        if not calls:
            return None
        return Finding(self.name, True, f"right after {len(calls)} changes of the weights", self.weight)
