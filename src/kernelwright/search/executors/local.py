"""This machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelwright.records import Problem

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.search.bench import Court


class LocalExecutor:
    """Judges in this process's own sandboxed children."""

    name = "local"

    def __init__(self, where: str = "") -> None: ...

    def missing(self) -> str | None:
        return None

    @contextmanager
    def court(self, problem: Problem, device: str, weights: "Mapping[str, Tensor] | None") -> "Iterator[Court]":
        from kernelwright.judge import JUDGE_VERSION, Judge
        from kernelwright.search.bench import Court
        from kernelwright.targets import environment

        with Judge(problem, device, weights=weights) as judge:
            yield Court(judge, environment(device), JUDGE_VERSION)
