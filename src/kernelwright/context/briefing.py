"""Puts a brief together from the room's sections."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from kernelwright.context.language_section import languages_of
from kernelwright.context.section import BriefSection, cut
from kernelwright.errors import UnknownNameError
from kernelwright.plugins import members
from kernelwright.records import Brief, Facts, Parent, Problem, Section


def brief(
    problem: Problem,
    device: str,
    facts: Facts,
    parents: Sequence[Parent] = (),
    budget_s: float = 60.0,
    attempts: int = 8,
    *,
    without: Collection[str] = (),
    **told: Any,
) -> Brief:
    """What a writer is told of `problem` on `device`. `parents`: earlier candidates with their verdicts, best first.

    `without`: sections to leave out. `told`: further fields of Brief, as `languages` (those of the device by default).
    Raises UnknownNameError for a section that there is not.
    """
    told = {"languages": languages_of(device)[1]} | told
    bare = Brief(problem, device, facts, parents=tuple(parents), budget_s=budget_s, attempts=attempts, **told)
    known = _sections()
    for name in without:
        if name not in {member.name for member in known}:
            raise UnknownNameError("section of a brief", name, [member.name for member in known])
    return rewritten(bare, without)


def rewritten(bare: Brief, without: Collection[str] = ()) -> Brief:
    """The brief with its sections written anew from its other fields."""
    sections: list[Section] = []
    for member in sorted(_sections(), key=lambda item: (item.place, item.name)):
        section = None if member.name in without else member.write(bare)
        if section is not None and section.text.strip():
            sections.append(replace(section, text=cut(section.text, member.limit)))
    return replace(bare, sections=tuple(sections))


def _sections() -> list[BriefSection]:
    return [kind() for kind in members("context", "Section").values()]
