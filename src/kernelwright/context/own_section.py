"""A writer's own last candidate, with all that the judge said of it."""

from kernelwright.context.profile_section import profile_text
from kernelwright.context.section import cut, fenced
from kernelwright.records import Brief, Section, Status, Weight

_LOG = 4_000
_ASIDE = ("reference.py",)


class OwnSection:
    """What is to be revised: the files, the findings, the log, the times."""

    name = "own"
    place = 60
    limit = 24_000

    def write(self, brief: Brief) -> Section | None:
        if brief.own is None:
            return None
        candidate, verdict = brief.own.candidate, brief.own.verdict
        lines = [f"Verdict: {verdict.status.value}, stage reached: {verdict.stage.value}."]
        words = {Weight.GATE: "rejected by", Weight.BAR: "kept from winning by", Weight.INFORM: "note of"}
        lines += [f"- {words[item.weight]} {item.check}: {item.message}" for item in verdict.findings if not item.ok]
        lines += [
            f"- {item.speedup:.2f}x over {item.baseline} ({item.low:.2f} to {item.high:.2f})"
            for item in verdict.comparisons
        ]
        parts = ["\n".join(lines)]
        if verdict.status is Status.PASSED:
            parts.append(profile_text(brief.own, brief.facts))
        elif verdict.log:
            parts.append(f"It printed:\n{fenced(verdict.log[-_LOG:], 'text')}")
        for file in candidate.sources:
            if file.path not in _ASIDE:
                room = max(1_000, self.limit - sum(map(len, parts)) - 200)
                parts.append(f"`{file.path}`:\n{fenced(file.text, 'text', room)}")
        return Section(self.name, "Your last candidate", cut("\n\n".join(parts), self.limit))
