"""A module or its text as a functional core-ATen graph: identity, rewrites, pieces, and text again."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.graph.capturing import Capture as Capture
    from kernelwright.graph.capturing import agrees as agrees
    from kernelwright.graph.capturing import capture as capture
    from kernelwright.graph.capturing import capture_problem as capture_problem
    from kernelwright.graph.kernel_call import KernelCall as KernelCall
    from kernelwright.graph.printing import print_module as print_module
    from kernelwright.graph.reference import build_reference as build_reference
    from kernelwright.graph.reference import example_arguments as example_arguments
    from kernelwright.graph.reference import load_text as load_text

__all__ = [
    "Capture",
    "KernelCall",
    "agrees",
    "build_reference",
    "capture",
    "capture_problem",
    "example_arguments",
    "load_text",
    "print_module",
]

_FILES = {
    "Capture": "capturing",
    "KernelCall": "kernel_call",
    "agrees": "capturing",
    "build_reference": "reference",
    "capture": "capturing",
    "capture_problem": "capturing",
    "example_arguments": "reference",
    "load_text": "reference",
    "print_module": "printing",
}


def __getattr__(name: str) -> Any:
    if name in _FILES:
        from importlib import import_module

        return getattr(import_module(f"kernelwright.graph.{_FILES[name]}"), name)
    raise AttributeError(f"module 'kernelwright.graph' has no attribute {name!r}")
