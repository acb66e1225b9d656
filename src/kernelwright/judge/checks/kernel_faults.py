"""Hosted kernels keep to their language's rules."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Status, Weight


class KernelFaultsCheck:
    """One call runs on builds of the kernels in which every access is told (docs/design/simt_checks.md): data races,
    indexes outside of a buffer, threadgroup memory read before it was written, barriers that some threads miss. Where
    a host ran such a kernel, in one order of its threads, it may have got the right answer; a GPU need not.

    Rejects as RUNTIME_ERROR: the kernel does what its language leaves undefined, whatever came out this time. What
    breaks the rules and is known to work informs. The child says it, in the candidate's own process.
    """

    name = "kernel_faults"
    weight = Weight.GATE
    principle = "E"

    def find(self, evidence: Evidence) -> Finding | None:
        seen = evidence.watched
        if seen is None or (not seen.launches and not seen.failure):
            return None
        if seen.faults:
            first, *others = seen.faults
            more = f" (and {len(others)} more)" if others else ""
            return Finding(self.name, False, f"{first}{more}", self.weight, Status.RUNTIME_ERROR)
        if seen.failure:
            message = f"not watched to the end: {seen.failure.message}"
            return Finding(self.name, False, message, Weight.INFORM, Status.RUNTIME_ERROR)
        if seen.remarks:
            return Finding(self.name, False, seen.remarks[0], Weight.INFORM, Status.RUNTIME_ERROR)
        message = f"no race, no wrong index and no missed barrier in {_launches(seen.launches)}"
        return Finding(self.name, True, message, self.weight, Status.RUNTIME_ERROR)


def _launches(count: int) -> str:
    return "one launch" if count == 1 else f"{count} launches"
