"""Who tries what next, and for how long."""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy
from kernelwright.search.budget import parse as parse_budget
from kernelwright.search.device import choose_device

if TYPE_CHECKING:
    from kernelwright.search.conduct import choose_writers as choose_writers
    from kernelwright.search.conduct import everybody as everybody
    from kernelwright.search.conduct import search as search
    from kernelwright.search.journal import Watch as Watch
    from kernelwright.search.module import optimize as optimize
    from kernelwright.search.settled import earlier as earlier

__all__ = ["Watch", "choose_device", "choose_writers", "earlier", "everybody", "optimize", "parse_budget", "search"]

__getattr__ = lazy(
    __name__,
    {
        "Watch": "journal",
        "choose_writers": "conduct",
        "earlier": "settled",
        "everybody": "conduct",
        "optimize": "module",
        "search": "conduct",
    },
)
