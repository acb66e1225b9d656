"""Anything a user has as a Problem, and the inputs its cases stand for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.problems.inputs import arguments as arguments
    from kernelwright.problems.live import from_module as from_module
    from kernelwright.problems.loading import load as load
    from kernelwright.problems.parameters import weights as weights

__all__ = ["arguments", "from_module", "load", "weights"]

_MODULES = {"arguments": "inputs", "from_module": "live", "load": "loading", "weights": "parameters"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
