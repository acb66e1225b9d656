"""What a writer is told."""

from dataclasses import dataclass

from kernelwright.records.candidate import Candidate
from kernelwright.records.facts import Facts
from kernelwright.records.problem import Problem
from kernelwright.records.verdict import Verdict


@dataclass(frozen=True)
class Section:
    """One part of a brief, as text."""

    name: str
    title: str
    text: str


@dataclass(frozen=True)
class Parent:
    """An earlier candidate and what the judge said of it."""

    candidate: Candidate
    verdict: Verdict


@dataclass(frozen=True)
class Reference:
    """The same computation written for another platform, which may show how it is split and laid out."""

    language: str
    name: str
    """Where it comes from: a file, or a candidate's title."""
    text: str


@dataclass(frozen=True)
class Picture:
    """An image, as a screenshot of a profiler, for models that can see."""

    name: str
    media_type: str
    """"image/png"."""
    base64: str


@dataclass(frozen=True)
class Beside:
    """What a user gives a writer beside the problem."""

    references: tuple[Reference, ...] = ()
    profiles: tuple[tuple[str, str], ...] = ()
    """Name and text of what a profiler exported."""
    pictures: tuple[Picture, ...] = ()
    without: tuple[str, ...] = ()
    """Sections of the brief to leave out."""


@dataclass(frozen=True)
class Brief:
    """The task, the machine, what is known already, and how long there is."""

    problem: Problem
    target: str
    facts: Facts
    sections: tuple[Section, ...] = ()
    parents: tuple[Parent, ...] = ()
    """Best first."""
    budget_s: float = 60.0
    attempts: int = 8
    """How many candidates the writer may submit."""
    languages: tuple[str, ...] = ()
    """Languages for kernels, as "cpp", the preferred one first; empty where none is known for the target."""
    beside: Beside = Beside()
    own: Parent | None = None
    """The writer's own last candidate, where it is asked to revise it."""

    def text(self) -> str:
        """The sections as one Markdown text."""
        return "\n\n".join(f"## {section.title}\n{section.text.strip()}" for section in self.sections)
