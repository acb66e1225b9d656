"""What was tried already, and what the judge said."""

from kernelwright.context.section import cut, fenced
from kernelwright.records import Brief, Comparison, Parent, Section, Status

_LISTED = 12
"""Candidates named; the text of the best is shown, and of the newest failure its log."""
_LOG = 1_500


class HistorySection:
    """Earlier candidates, best first, with the best one's text and the reasons of those that failed."""

    name = "history"
    place = 30
    limit = 12_000

    def write(self, brief: Brief) -> Section | None:
        if not brief.parents:
            return None
        lines = [_line(parent) for parent in brief.parents[:_LISTED]]
        if len(brief.parents) > _LISTED:
            lines.append(f"- and {len(brief.parents) - _LISTED} more")
        parts = ["\n".join(lines)]
        failed = next((parent for parent in brief.parents if parent.verdict.log and not _passed(parent)), None)
        if failed is not None:
            log = fenced(failed.verdict.log[-_LOG:], "text")
            parts.append(f"What {failed.candidate.title} printed:\n{log}")
        best = next((parent for parent in brief.parents if _passed(parent) and not parent.candidate.baseline), None)
        if best is not None:
            room = max(1000, self.limit - sum(map(len, parts)) - 200)
            files = [f"# {file.path}\n{file.text}" for file in best.candidate.sources if file.path != "reference.py"]
            parts.append(f"The best so far, {best.candidate.title}:\n{fenced(chr(10).join(files), 'text', room)}")
        return Section(self.name, "What was tried", cut("\n\n".join(parts), self.limit))


def _passed(parent: Parent) -> bool:
    return parent.verdict.status is Status.PASSED


def _line(parent: Parent) -> str:
    verdict, candidate = parent.verdict, parent.candidate
    words = [f"- {candidate.title} ({candidate.target}): {verdict.status.value}"]
    if verdict.timing is not None:
        words.append(f"{verdict.timing.median_us:.1f} us")
    if verdict.best_baseline is not None and not candidate.baseline:
        words.append(_speedup(verdict.best_baseline))
    if verdict.reason:
        words.append(verdict.reason)
    if candidate.note:
        words.append(f"({candidate.note})")
    return ", ".join(words)


def _speedup(comparison: Comparison) -> str:
    return f"{comparison.speedup:.2f}x over {comparison.baseline} ({comparison.low:.2f} to {comparison.high:.2f})"
