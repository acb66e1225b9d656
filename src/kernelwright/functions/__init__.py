"""Python loops, compiled: the decorators that users see, their call path, and plans for loops that scatter.

@kernelwright.njit
def f(x, out): ...
"""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy

if TYPE_CHECKING:
    from kernelwright.functions.constants import constant as constant
    from kernelwright.functions.decorators import guvectorize as guvectorize
    from kernelwright.functions.decorators import njit as njit
    from kernelwright.functions.decorators import prange as prange
    from kernelwright.functions.decorators import vectorize as vectorize
    from kernelwright.functions.function import Function as Function

_FILES = {
    "Function": "function",
    "constant": "constants",
    **dict.fromkeys(("guvectorize", "njit", "prange", "vectorize"), "decorators"),
}
__all__ = ["Function", "constant", "guvectorize", "njit", "prange", "vectorize"]

__getattr__ = lazy("kernelwright.functions", _FILES)
