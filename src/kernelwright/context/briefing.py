"""Puts a brief together from the room's sections."""

from collections.abc import Sequence
from dataclasses import replace

from kernelwright.context.language_section import languages_of
from kernelwright.context.section import BriefSection, cut
from kernelwright.errors import UnknownNameError
from kernelwright.plugins import members
from kernelwright.records import Beside, Brief, Facts, Parent, Problem, Section


def brief(
    problem: Problem,
    device: str,
    facts: Facts,
    parents: Sequence[Parent] = (),
    budget_s: float = 60.0,
    attempts: int = 8,
    *,
    languages: Sequence[str] | None = None,
    beside: Beside = Beside(),
) -> Brief:
    """What a writer is told of `problem` on `device`. `parents`: earlier candidates with their verdicts, best first.

    `languages`: None for those of the device. Raises UnknownNameError where `beside` leaves out a section that there
    is not.
    """
    spoken = languages_of(device)[1] if languages is None else tuple(languages)
    known = members("context", "Section")
    for name in beside.without:
        if name not in known:
            raise UnknownNameError("section of a brief", name, known)
    return rewritten(
        Brief(
            problem,
            device,
            facts,
            parents=tuple(parents),
            budget_s=budget_s,
            attempts=attempts,
            languages=spoken,
            beside=beside,
        )
    )


def rewritten(told: Brief) -> Brief:
    """The brief with its sections written anew from its other fields."""
    bare = replace(told, sections=())
    sections: list[Section] = []
    for member in sorted(_sections(), key=lambda item: (item.place, item.name)):
        section = None if member.name in told.beside.without else member.write(bare)
        if section is not None and section.text.strip():
            sections.append(replace(section, text=cut(section.text, member.limit)))
    return replace(bare, sections=tuple(sections))


def _sections() -> list[BriefSection]:
    return [kind() for kind in members("context", "Section").values()]
