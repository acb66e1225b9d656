"""What earlier searches have settled: who asks the same again, on the same machine, gets the same answer at once."""

from collections.abc import Iterator, Sequence

from kernelwright import __version__
from kernelwright.archive import Archive
from kernelwright.judge import JUDGE_VERSION
from kernelwright.records import Outcome, Problem
from kernelwright.search.regions import RegionsWriter, too_large
from kernelwright.writers import Writer


def settled(problem: Problem, device: str, writers: Sequence[Writer], archive: Archive) -> Outcome | None:
    """The newest run in which all of `writers` that can run here proposed all they had, beside no other baselines, if
    they would not propose anything else today."""
    able = {writer for writer in writers if writer.missing(device) is None}
    if not able or not all(getattr(writer, "repeats", False) for writer in able):
        return None
    names = {writer.name for writer in able} | ({RegionsWriter.name} if too_large(problem) else set())
    found = earlier(problem, device, archive)
    for outcome in found:
        stock = {entry.candidate.writer for entry in outcome.entries if entry.candidate.baseline}
        if outcome.version == __version__ and stock <= names <= set(outcome.done):
            return outcome
    return None


def earlier(problem: Problem, device: str, archive: Archive) -> Iterator[Outcome]:
    """Finished runs of this problem in this very environment under this judge, newest first."""
    from kernelwright.targets import environment

    here: str | None = None
    for run in archive.runs(problem=problem.digest, device=device):
        if run.finished:
            outcome = archive.outcome(run.id)
            verdicts = [entry.verdict for entry in outcome.entries]
            here = here or environment(device).digest
            same = all(verdict.environment.digest == here and verdict.judge == JUDGE_VERSION for verdict in verdicts)
            if verdicts and same and not outcome.interrupted:
                yield outcome
