"""What search asks of a place where candidates are judged."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from kernelwright.errors import MissingError
from kernelwright.plugins import find
from kernelwright.records import Problem

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.search.bench import Court


class Executor(Protocol):
    """Opens courts. It writes no archive: verdicts come back to the search, which alone does."""

    name: str

    def __init__(self, where: str = "") -> None:
        """`where`: what stands behind the colon, as a cluster's address."""
        ...

    def missing(self) -> str | None:
        """Why it cannot be used here, as a sentence; None if it can."""
        ...

    def court(
        self, problem: Problem, device: str, weights: "Mapping[str, Tensor] | None"
    ) -> "AbstractContextManager[Court]":
        """A judge for the problem. Raises MissingError where no place of that kind is to be had."""
        ...


def executor_named(written: str) -> Executor:
    """The executor of "local", "ray", "ray:ADDRESS". Raises UnknownNameError and MissingError."""
    name, _, where = written.partition(":")
    found: Executor = find("search.executors", "Executor", name)(where)
    why = found.missing()
    if why:
        raise MissingError(why)
    return found
