"""It leaves the process as it found it."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class SurroundingsCheck:
    """What is the whole process's is as it was before the candidate came: threads, default dtype, flags, modes and
    random states of torch, the processor's floating-point mode, functions behind well-known names, hooks on every
    module (targets/surroundings.py lists all). A kernel changes one result, not how everybody else computes.

    What only the reader of a log or a program started later would notice (filters of warnings, variables) informs. The
    child says it, in the candidate's own process: who replaces that code can hide it, and is judged, and later loaded,
    with what it hides put back or not.
    """

    name = "surroundings"
    weight = Weight.GATE
    principle = "A"

    def find(self, evidence: Evidence) -> Finding | None:
        if not evidence.looked:
            return None
        grave = [change.what for change in evidence.changes if change.matters]
        if grave:
            weight = Weight.INFORM if evidence.baseline else self.weight
            message = f"it changes what the whole process shares: {_told(grave)}"
            return Finding(self.name, False, message, weight, Status.CHEATED)
        if evidence.changes:
            message = f"beside its result it changes {_told([change.what for change in evidence.changes])}"
            return Finding(self.name, False, message, Weight.INFORM)
        return Finding(self.name, True, "the process is as it was", self.weight, Status.CHEATED)


def _told(changes: list[str]) -> str:
    shown = "; ".join(changes[:3])
    return f"{shown}; and {len(changes) - 3} more" if len(changes) > 3 else shown
