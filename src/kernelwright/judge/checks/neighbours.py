"""The operators that run after it are as fast as after the baseline."""

from kernelwright.judge.evidence import Evidence
from kernelwright.records import Finding, Weight


class NeighboursCheck:
    """Stock operators run right after the candidate's calls and right after a baseline's, by turns. Where they are
    slower after the candidate, beyond what the baseline's distance from itself explains, it leaves something behind
    (busy threads, cold caches, a scattered allocator), and a model gains less than its own time says. A confirmation
    looks; it informs."""

    name = "neighbours"
    weight = Weight.INFORM
    principle = "G"

    def find(self, evidence: Evidence) -> Finding | None:
        found = evidence.neighbours
        if found is None:
            return None
        numbers = (("slower", found.slower), ("low", found.low), ("high", found.high), ("floor", found.floor))
        if found.seen:
            message = (
                f"operators that run right after it take {found.slower:.2f} times as long as after the baseline "
                f"({found.low:.2f} to {found.high:.2f}): it leaves threads busy, caches cold or memory scattered"
            )
            return Finding(self.name, False, message, self.weight, numbers=numbers)
        message = "operators that run right after it are as fast as after the baseline"
        return Finding(self.name, True, message, self.weight, numbers=numbers)
