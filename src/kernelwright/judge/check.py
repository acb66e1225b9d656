"""A check looks at what the judge has seen and says one thing about it. One file of `judge/checks`."""

from typing import Protocol

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class Check(Protocol):
    """Pure: the same evidence gives the same finding, and nothing is run."""

    name: str
    weight: Weight
    """What a finding that is not ok means, for a candidate that is no baseline."""
    principle: str
    """The letter of DESIGN's list this check serves, A to J."""

    def find(self, evidence: Evidence) -> Finding | None:
        """The finding; None where the evidence holds nothing this check could speak about."""
        ...
