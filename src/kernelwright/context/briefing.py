"""Puts a brief together from the room's sections."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.context.section import BriefSection, cut
from kernelwright.plugins import members
from kernelwright.records import Brief, Facts, Parent, Problem, Section


def brief(
    problem: Problem,
    device: str,
    facts: Facts,
    parents: Sequence[Parent] = (),
    budget_s: float = 60.0,
    attempts: int = 8,
) -> Brief:
    """What a writer is told of `problem` on `device`. `parents`: earlier candidates with their verdicts, best first."""
    bare = Brief(problem, device, facts, parents=tuple(parents), budget_s=budget_s, attempts=attempts)
    sections: list[Section] = []
    for member in sorted(_sections(), key=lambda item: (item.place, item.name)):
        section = member.write(bare)
        if section is not None and section.text.strip():
            sections.append(replace(section, text=cut(section.text, member.limit)))
    return replace(bare, sections=tuple(sections))


def _sections() -> list[BriefSection]:
    return [kind() for kind in members("context", "Section").values()]
