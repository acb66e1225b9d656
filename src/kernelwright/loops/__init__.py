"""The one code generator: a typed loop-nest IR, schedules, and printers. Knows no torch.

A Python function becomes a `Program` by `parse`, and text by `print_program_cpp`.
A `Fusion` (steps over one domain) becomes a plain nest by `nest`, a fast one by `scheduled`, and text by `print_cpp` or
`print_msl`.
"""

from kernelwright.loops.analysis import Kind, LoopPlan, ProgramPlan, analyse
from kernelwright.loops.attention import LARGEST_HEAD, Attention, attention_template, print_attention
from kernelwright.loops.columns import by_columns, by_parts
from kernelwright.loops.convolution import (
    Convolution,
    Window,
    packed_convolution,
    packed_weights,
    print_convolution,
)
from kernelwright.loops.cpp import print_cpp
from kernelwright.loops.device_text import DeviceProgram, Launch
from kernelwright.loops.dialect import COPIES, GROUP, STAGE
from kernelwright.loops.epilogue import SUM, Epilogue, Read
from kernelwright.loops.expressions import (
    Apply,
    Buffer,
    Cast,
    Constant,
    Expression,
    Load,
    Op,
    Select,
    Size,
    Variable,
)
from kernelwright.loops.filled import Filled, filled_template, print_filled
from kernelwright.loops.fusion import Fusion, Operand, Result, Step, nest
from kernelwright.loops.interpreter import interpret, turns
from kernelwright.loops.linear import (
    LINEAR_TEMPLATE,
    Linear,
    PackedWeight,
    packed_elements,
    print_linear,
    print_packed_weight,
)
from kernelwright.loops.msl import MetalKernel, msl_kernel_template, print_msl
from kernelwright.loops.nest import Declare, For, Kernel, Let, Local, Move, Reduction, Statement, Store, Update
from kernelwright.loops.program import Argument, ArrayType, Failure, Program
from kernelwright.loops.program_cpp import print_function, print_program_cpp, program_template
from kernelwright.loops.program_cuda import cuda_template, print_program_cuda
from kernelwright.loops.program_msl import msl_template, print_program_msl
from kernelwright.loops.python.parse import parse
from kernelwright.loops.python.source import UnsupportedError
from kernelwright.loops.recurrent import packed_recurrent, recurrent, recurrent_weights
from kernelwright.loops.schedules import Plan, keep_row, parallelise, scheduled, split, vectorise
from kernelwright.loops.staging import streamed, turned
from kernelwright.loops.types import ScalarType

__all__ = [
    "Apply",
    "Argument",
    "ArrayType",
    "Attention",
    "Buffer",
    "COPIES",
    "Cast",
    "Constant",
    "Convolution",
    "Declare",
    "DeviceProgram",
    "Epilogue",
    "Expression",
    "Failure",
    "Filled",
    "For",
    "Fusion",
    "GROUP",
    "Kernel",
    "Kind",
    "LARGEST_HEAD",
    "LINEAR_TEMPLATE",
    "Launch",
    "Let",
    "Linear",
    "Load",
    "Local",
    "LoopPlan",
    "MetalKernel",
    "Move",
    "Op",
    "Operand",
    "PackedWeight",
    "Plan",
    "Program",
    "ProgramPlan",
    "Read",
    "Reduction",
    "Result",
    "STAGE",
    "SUM",
    "ScalarType",
    "Select",
    "Size",
    "Statement",
    "Step",
    "Store",
    "UnsupportedError",
    "Update",
    "Variable",
    "Window",
    "analyse",
    "attention_template",
    "by_columns",
    "by_parts",
    "cuda_template",
    "filled_template",
    "interpret",
    "keep_row",
    "msl_kernel_template",
    "msl_template",
    "nest",
    "packed_convolution",
    "packed_elements",
    "packed_recurrent",
    "packed_weights",
    "parallelise",
    "parse",
    "print_attention",
    "print_convolution",
    "print_cpp",
    "print_filled",
    "print_function",
    "print_linear",
    "print_msl",
    "print_packed_weight",
    "print_program_cpp",
    "print_program_cuda",
    "print_program_msl",
    "program_template",
    "recurrent",
    "recurrent_weights",
    "scheduled",
    "split",
    "streamed",
    "turned",
    "turns",
    "vectorise",
]
