"""A grid of threads in groups of SIMD groups, run on CPU cores or on an NVIDIA GPU. Knows no kernel language.

A front end makes a Unit; build() compiles its entries; Library.launch() runs one.
"""

from kernelwright.simt.compiling import build
from kernelwright.simt.library import Library, Report
from kernelwright.simt.unit import BUILTINS, Entry, Parameter, Unit

__all__ = ["BUILTINS", "Entry", "Library", "Parameter", "Report", "Unit", "build"]
