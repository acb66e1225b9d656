"""What earlier verdicts on this problem teach: which checks rejected, how often, and what passed and how."""

from collections import Counter

from kernelwright.context.section import cut
from kernelwright.records import Brief, Parent, Section, Status, Weight

_LISTED = 6


class LessonsSection:
    """Counts over the candidates that are known. Nothing is claimed that no verdict supports."""

    name = "lessons"
    place = 50
    limit = 2_000

    def write(self, brief: Brief) -> Section | None:
        known = [parent for parent in brief.parents if not parent.candidate.baseline]
        if len(known) < 2:
            return None
        lines = []
        for (check, status), count in _rejections(known).most_common(_LISTED):
            lines.append(f"- {count} of {len(known)} were rejected by `{check}` ({status})")
        passed = [parent for parent in known if parent.verdict.status is Status.PASSED]
        for parent in passed[:_LISTED]:
            best = parent.verdict.best_baseline
            if best and parent.candidate.note:
                lines.append(f"- {best.speedup:.2f}x over {best.baseline}: {parent.candidate.note}")
        barred = sum(bool(parent.verdict.failed(Weight.BAR)) for parent in passed)
        if barred:
            lines.append(f"- {barred} passed and cannot win, since they lose NaN, infinities or changed weights")
        return Section(self.name, "What the verdicts so far show", cut("\n".join(lines), self.limit)) if lines else None


def _rejections(known: list[Parent]) -> Counter[tuple[str, str]]:
    return Counter(
        (failed[0].check, failed[0].status.value) for parent in known if (failed := parent.verdict.failed(Weight.GATE))
    )
