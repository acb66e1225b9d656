"""Builds, verifies, catches cheats, times and confirms. What runs here is never believed, only measured."""

from typing import TYPE_CHECKING

from kernelwright.judge.gate import Gate
from kernelwright.judge.settings import JUDGE_VERSION, Settings
from kernelwright.plugins import lazy

if TYPE_CHECKING:
    from kernelwright.judge.gradients import differentiated as differentiated
    from kernelwright.judge.gradients import differentiating as differentiating
    from kernelwright.judge.judge import Judge as Judge

__all__ = ["Gate", "JUDGE_VERSION", "Judge", "Settings", "differentiated", "differentiating"]


__getattr__ = lazy(__name__, {"Judge": "judge", "differentiated": "gradients", "differentiating": "gradients"})
