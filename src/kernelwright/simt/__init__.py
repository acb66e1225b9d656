"""A grid of threads in groups of SIMD groups, run on CPU cores or on an NVIDIA GPU. Knows no kernel language.

A front end makes a Unit; build() compiles its entries; Library.launch() runs one.
Built with check=True or count=True it also tells what is wrong, and what it cost.
"""

from kernelwright.simt.carried import carry, opened
from kernelwright.simt.check import Fault, FaultKind
from kernelwright.simt.compiling import build, measured, verify
from kernelwright.simt.counters import Counters
from kernelwright.simt.library import Library, Report
from kernelwright.simt.unit import BUILTINS, Entry, Parameter, Unit

__all__ = [
    "BUILTINS",
    "Counters",
    "Entry",
    "Fault",
    "FaultKind",
    "Library",
    "Parameter",
    "Report",
    "Unit",
    "build",
    "carry",
    "measured",
    "opened",
    "verify",
]
