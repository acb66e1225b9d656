"""Says what ran."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class LedgerCheck:
    """The kernels and library calls that a profiler saw, with their share of the time. Using a library is no crime."""

    name = "ledger"
    weight = Weight.INFORM
    principle = "I"

    def find(self, evidence: Evidence) -> Finding | None:
        if not evidence.kernels:
            return None
        top = ", ".join(f"{name} {share:.0%}" for name, share in evidence.kernels[:3])
        return Finding(self.name, True, f"time went to {top}", self.weight)
