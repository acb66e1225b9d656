"""A Program in Metal Shading Language. Metal has no float64: parse with `real=FLOAT32`, or print with `pairs`."""

from dataclasses import replace

from kernelwright.loops.device_text import DeviceProgram, device_template, print_for
from kernelwright.loops.dialect import Dialect
from kernelwright.loops.expressions import Op
from kernelwright.loops.program import Program
from kernelwright.loops.types import ScalarType

MSL = Dialect(
    name="Metal",
    templates=("metal.hpp", "device.hpp"),
    head="kernel void ",
    device="device ",
    scalar="constant {type}& {name}",
    thread=("uint kw_number [[thread_position_in_grid]]", "uint kw_place [[thread_position_in_threadgroup]]"),
    number="int64(kw_number)",
    lane="kw_place",
    shared="threadgroup ",
    twins=False,
    atomics=frozenset((ScalarType.FLOAT32, ScalarType.INT32, ScalarType.UINT32)),
    refused=frozenset((ScalarType.FLOAT64,)),
    missing=frozenset((Op.ERF, Op.ERFC, Op.GAMMA, Op.LGAMMA)),
    infinity="INFINITY",
    nan="NAN",
)
MSL_PAIRS = replace(
    MSL,
    templates=("metal.hpp", "double_float.hpp", "device.hpp"),
    refused=frozenset(),
    double="df64",
    double_missing=frozenset(
        {
            *(Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.ATAN2, Op.SINH, Op.COSH, Op.TANH),
            *(Op.ASINH, Op.ACOSH, Op.ATANH, Op.EXP2, Op.EXPM1, Op.LOG2, Op.LOG10, Op.LOG1P),
            *(Op.CBRT, Op.POW),
        }
    ),
)
"""Float64 as two floats: 48 bits, and float32's range."""


def msl_template(*, pairs: bool = False) -> str:
    """What all programs of a file share."""
    return device_template(MSL_PAIRS if pairs else MSL)


def print_program_msl(
    program: Program, *, boundscheck: bool = True, batched: bool = False, pairs: bool = False
) -> DeviceProgram:
    """Kernels, to stand after `msl_template()`; `batched`: the whole program by each thread, on arrays of its own.
    `pairs`: float64 is two float32, their sum, in arrays and for numbers, with the larger one first.

    Raises UnsupportedError where the program computes in float64 without that, or with a function that is not there.
    """
    return print_for(program, MSL_PAIRS if pairs else MSL, boundscheck, batched)
