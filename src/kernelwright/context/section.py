"""A part of what a writer is told. One file a section, found by its `name`."""

from typing import Protocol

from kernelwright.records import Brief, Section


class BriefSection(Protocol):
    """Says one thing about the task."""

    name: str
    place: int
    """Sections are ordered by place, then by name."""
    limit: int
    """Most characters of its text."""

    def write(self, brief: Brief) -> Section | None:
        """The section for `brief`, whose own sections are still empty; None where there is nothing to say."""
        ...


def cut(text: str, limit: int) -> str:
    """`text` within `limit` characters: whole lines from its beginning, and a line that says how much is gone."""
    if len(text) <= limit:
        return text
    kept = text[: max(0, limit - 60)]
    kept = kept[: kept.rfind("\n") + 1] or kept
    return f"{kept.rstrip()}\n... ({len(text) - len(kept)} more characters)"


def fenced(text: str, language: str = "python", limit: int = 1 << 30) -> str:
    """`text` as a Markdown code block, cut to `limit`; the fence is longer than any inside."""
    body = cut(text.strip("\n"), limit)
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{fence}{language}\n{body}\n{fence}"
