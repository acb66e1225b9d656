"""Kernelwright makes PyTorch modules and plain Python loops fast, and proves it.

    fast = kernelwright.optimize(model, example_inputs)    # a drop-in nn.Module
    torch.compile(model, backend="kernelwright")           # proven kernels from the archive, Inductor for the rest
    @kernelwright.njit                                     # a Python loop at the speed of C

Importing this package loads neither torch nor any of its rooms.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.deploy import load as load
    from kernelwright.functions import constant as constant
    from kernelwright.functions import guvectorize as guvectorize
    from kernelwright.functions import njit as njit
    from kernelwright.functions import prange as prange
    from kernelwright.functions import vectorize as vectorize
    from kernelwright.search import optimize as optimize
    from kernelwright.targets import compile as compile
    from kernelwright.targets import source as source

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "compile",
    "constant",
    "guvectorize",
    "load",
    "njit",
    "optimize",
    "prange",
    "source",
    "vectorize",
]

_ROOMS = {
    **dict.fromkeys(("compile", "source"), "targets"),
    **dict.fromkeys(("constant", "guvectorize", "njit", "prange", "vectorize"), "functions"),
    "load": "deploy",
    "optimize": "search",
}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        from importlib import import_module

        return getattr(import_module(f"kernelwright.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
