"""The same computation written for another platform: how it is split, staged and laid out carries over."""

from kernelwright.context.section import cut, fenced
from kernelwright.records import Brief, Section


class ReferenceSection:
    """Kernels for other platforms, from the user or from the archive."""

    name = "reference"
    place = 25
    limit = 12_000

    def write(self, brief: Brief) -> Section | None:
        shown = brief.beside.references
        if not shown:
            return None
        room = max(1_000, self.limit // len(shown) - 200)
        parts = [f"{item.name}, in {item.language}:\n{fenced(item.text, item.language, room)}" for item in shown]
        head = "Take over what is computed and how it is split; units of work and memory differ here."
        return Section(self.name, "References from other platforms", cut("\n\n".join([head, *parts]), self.limit))
