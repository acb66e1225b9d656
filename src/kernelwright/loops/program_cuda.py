"""A Program in CUDA C++."""

from kernelwright.loops.device_text import DeviceProgram, device_template, print_for
from kernelwright.loops.dialect import Dialect
from kernelwright.loops.program import Program
from kernelwright.loops.types import ScalarType

CUDA = Dialect(
    name="CUDA",
    templates=("cuda.hpp", "device.hpp"),
    head='extern "C" __global__ void ',
    device="",
    scalar="const {type} {name}",
    thread=(),
    number="int64(blockIdx.x) * blockDim.x + threadIdx.x",
    lane="threadIdx.x",
    shared="__shared__ ",
    twins=True,
    atomics=frozenset((ScalarType.FLOAT32, ScalarType.FLOAT64, ScalarType.INT32, ScalarType.UINT32, ScalarType.INT64)),
    refused=frozenset(),
    missing=frozenset(),
    infinity="(1.0f / 0.0f)",
    nan="(0.0f / 0.0f)",
)


def cuda_template() -> str:
    """What all programs of a file share."""
    return device_template(CUDA)


def print_program_cuda(
    program: Program, *, boundscheck: bool = True, batched: bool = False, common: frozenset[str] = frozenset()
) -> DeviceProgram:
    """Kernels, to stand after `cuda_template()`; `batched`: the whole program by each thread, on arrays of its own but
    for the `common` arguments."""
    return print_for(program, CUDA, boundscheck, batched, common)
