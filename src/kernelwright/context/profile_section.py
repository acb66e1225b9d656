"""Where the time of the best candidate goes, and what a profiler of the user's has exported."""

from kernelwright.context.section import cut, fenced
from kernelwright.records import Brief, Facts, Parent, Section

_KERNELS = 10
_SPREAD = 0.1


class ProfileSection:
    """What ran in the best candidate, with its share of the time, and how it stands against the machine."""

    name = "profile"
    place = 40
    limit = 8_000

    def write(self, brief: Brief) -> Section | None:
        timed = (parent for parent in brief.parents if not parent.candidate.baseline and parent.verdict.timing)
        best = next(timed, None)
        parts = [] if best is None else [f"{best.candidate.title}:\n{profile_text(best, brief.facts)}"]
        room = max(500, (self.limit - sum(map(len, parts))) // max(1, len(brief.beside.profiles)) - 100)
        parts += [f"{name}:\n{fenced(text, 'text', room)}" for name, text in brief.beside.profiles]
        return Section(self.name, "Profile", cut("\n\n".join(parts), self.limit)) if parts else None


def profile_text(parent: Parent, facts: Facts) -> str:
    """Everything a verdict holds about time, as a Markdown list."""
    verdict = parent.verdict
    lines = []
    if verdict.timing is None:
        lines.append(f"- no time: {verdict.status.value} at {verdict.stage.value}" + _because(verdict.reason))
        if not verdict.native:
            lines.append(f"- it ran on a host that stands in for {facts.device}, whose times say nothing about it")
    else:
        timing = verdict.timing
        low, high = timing.quantile_us(0.25), timing.quantile_us(0.75)
        lines.append(f"- one call takes {timing.median_us:.1f} us (quartiles {low:.1f} to {high:.1f})")
        if timing.copy_us > _SPREAD * timing.median_us:
            lines.append(f"- copying its results out takes {timing.copy_us:.1f} us more, by the judge, off the clock")
    if verdict.prepare_us is not None:
        lines.append(f"- prepare() takes {verdict.prepare_us:.1f} us, once for each change of weights")
    if verdict.peak_memory_bytes is not None:
        lines.append(f"- at most {verdict.peak_memory_bytes / (1 << 20):.1f} MB were in use")
    lines += [f"- {share:.0%} of the time: {name}" for name, share in verdict.ledger[:_KERNELS]]
    if not verdict.ledger and verdict.timing:
        lines.append("- which kernels ran is told of confirmed candidates only")
    told = ("physics", "super_batch", "late_work", "quiet_clock")
    lines += [f"- {finding.check}: {finding.message}" for finding in verdict.findings if finding.check in told]
    return "\n".join(lines)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
