"""Builds, verifies, catches cheats, times and confirms. What runs here is never believed, only measured."""

from typing import TYPE_CHECKING, Any

from kernelwright.judge.gate import Gate
from kernelwright.judge.settings import JUDGE_VERSION, Settings

if TYPE_CHECKING:
    from kernelwright.judge.judge import Judge as Judge

__all__ = ["Gate", "JUDGE_VERSION", "Judge", "Settings"]


def __getattr__(name: str) -> Any:
    if name == "Judge":
        from kernelwright.judge.judge import Judge

        return Judge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
