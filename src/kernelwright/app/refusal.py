"""A problem that this machine cannot hold, as an outcome: nothing ran, and the verdict says why."""

from kernelwright.errors import TooLargeError
from kernelwright.records import Candidate, Entry, Finding, Outcome, SourceFile, Stage, Status, Verdict


def refused(error: TooLargeError, device: str) -> Outcome:
    """The reference with the verdict UNSUPPORTED. It has no run, since no archive was asked."""
    from kernelwright.targets import environment

    problem = error.problem
    candidate = Candidate("eager", f"torch@{device}", (SourceFile("model.py", problem.source),), baseline=True)
    verdict = Verdict(
        candidate.digest,
        problem.digest,
        candidate.target,
        Status.UNSUPPORTED,
        Stage.BUILD,
        environment(device),
        findings=(Finding("runs", False, str(error), status=Status.UNSUPPORTED),),
    )
    return Outcome("", problem, device, (Entry(candidate, verdict),), None, str(error))
