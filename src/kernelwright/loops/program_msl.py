"""A Program in Metal Shading Language. Metal has no float64; parse for it with `real=ScalarType.FLOAT32`."""

from kernelwright.loops.device_text import DeviceProgram, Dialect, device_template, print_for
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


def msl_template() -> str:
    """What all programs of a file share."""
    return device_template(MSL)


def print_program_msl(program: Program, *, boundscheck: bool = True, batched: bool = False) -> DeviceProgram:
    """Kernels, to stand after `msl_template()`; `batched`: the whole program by each thread, on arrays of its own.

    Raises UnsupportedError where the program computes in float64, or with a function that Metal lacks.
    """
    return print_for(program, MSL, boundscheck, batched)
