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

    def text(self) -> str:
        """The sections as one Markdown text."""
        return "\n\n".join(f"## {section.title}\n{section.text.strip()}" for section in self.sections)
