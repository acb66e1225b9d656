"""The results are right, for every family of inputs."""

from kernelwright.judge.evidence import Call, Evidence
from kernelwright.judge.wording import right, wrong
from kernelwright.records import Case, Finding, Status, Weight

_PROBES = ("nan_probe", "inf_probe")


class ValuesCheck:
    """Distance from the float64 oracle within the error budget (docs/judge.md), element by element, for every family
    but the probes, for second sizes and other layouts. Timed calls and changed weights have checks of their own.

    `constant` informs as far as finite values go: its exact result is often a cancellation (a variance of zero) that
    no budget relative to the result can cover.
    """

    name = "values"
    weight = Weight.GATE
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        calls = [call for call in evidence.answered if _ours(call)]
        worst = 0.0
        for call in calls:
            for place, output in enumerate(call.outputs):
                found = output.difference
                if found is None or not call.informative:
                    continue
                wrong_elements = found.lost + found.strange if call.case.family == "constant" else found.wrong
                if wrong_elements:
                    weight = self.weight
                    if evidence.baseline and not plain(call.case):
                        weight = Weight.BAR
                    return Finding(self.name, False, wrong(call, place), weight, Status.WRONG_VALUES)
                if call.case.family != "constant":
                    worst = max(worst, found.worst)
        if not calls:
            return None
        return Finding(self.name, True, right(calls, worst), self.weight, numbers=(("worst", worst),))


def plain(case: Case) -> bool:
    """Whether a case keeps to what a problem's own text would hand over: a stock tool may be held to that alone."""
    return case.layout == "contiguous" and not case.sizes


def _ours(call: Call) -> bool:
    return not call.timed and call.case.family not in _PROBES and not call.reloaded
