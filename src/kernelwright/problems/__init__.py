"""Anything a user has as a Problem, and the inputs its cases stand for."""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy
from kernelwright.problems.sizes import shapes, tied_ranges
from kernelwright.problems.sources.kernelbench import kernelbench_problems
from kernelwright.problems.sources.suite import suite_problems

if TYPE_CHECKING:
    from kernelwright.problems.inputs import FAMILIES as FAMILIES
    from kernelwright.problems.inputs import LAYOUTS as LAYOUTS
    from kernelwright.problems.inputs import arguments as arguments
    from kernelwright.problems.live import from_module as from_module
    from kernelwright.problems.loading import load as load
    from kernelwright.problems.parameters import weights as weights

__all__ = [
    "FAMILIES",
    "LAYOUTS",
    "arguments",
    "from_module",
    "kernelbench_problems",
    "load",
    "shapes",
    "suite_problems",
    "tied_ranges",
    "weights",
]

__getattr__ = lazy(
    __name__,
    {
        "FAMILIES": "inputs",
        "LAYOUTS": "inputs",
        "arguments": "inputs",
        "from_module": "live",
        "load": "loading",
        "weights": "parameters",
    },
)
