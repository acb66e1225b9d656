"""Python loops, compiled: the decorators that users see, their call path, and plans for loops that scatter.

@kernelwright.njit
def f(x, out): ...
"""

from typing import TYPE_CHECKING

from kernelwright.plugins import lazy

if TYPE_CHECKING:
    from kernelwright.functions.constants import constant as constant
    from kernelwright.functions.decorators import njit as njit
    from kernelwright.functions.decorators import prange as prange
    from kernelwright.functions.function import Function as Function

_FILES = {"Function": "function", "constant": "constants", "njit": "decorators", "prange": "decorators"}
__all__ = ["Function", "constant", "njit", "prange"]

__getattr__ = lazy("kernelwright.functions", _FILES)
