"""Loop functions as kernels: Metal's on this machine's host, CUDA's as far as a compiler without a GPU goes."""

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelwright import loops
from kernelwright.loops import ArrayType, Program, ScalarType, UnsupportedError
from kernelwright.metal import compile_shader
from kernelwright.toolchain import clang


def load(name: str) -> Any:
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(f"loops_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


functions = load("test_python_functions")
CASES = functions.CASES
F32 = ScalarType.FLOAT32


def arguments_of(name: str) -> list[Any]:
    """In float32, numbers too, and contiguous as Metal's host wants them."""
    made = functions.fresh(functions.arguments_of(name, "float32"))
    made = [np.float32(value) if isinstance(value, float) else value for value in made]
    made = [np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for value in made]
    return [value.astype(np.float32) if getattr(value, "dtype", None) == np.float64 else value for value in made]


def parsed(name: str) -> Program:
    return loops.parse(CASES[name][0], [functions.type_of(value) for value in arguments_of(name)], real=F32)


@pytest.fixture(scope="module")
def metal() -> tuple[Any, dict[str, tuple[Program, loops.DeviceProgram]]]:
    """All functions in one file."""
    made = {name: parsed(name) for name in CASES}
    printed = {name: (program, loops.print_program_msl(program)) for name, program in made.items()}
    library = compile_shader("\n".join([loops.msl_template(), *(device.text for _, device in printed.values())]))
    return library, printed


def run(library: Any, program: Program, device: loops.DeviceProgram, arguments: list[Any]) -> tuple[Any, ...]:
    """Launches the kernels; the scalars returned. Asserts that nothing failed."""
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    sizes = [
        word for array in arrays for word in (*array.shape, *(stride // array.itemsize for stride in array.strides), 0)
    ]
    scalars = [value for value in arguments if not isinstance(value, np.ndarray)]
    error, results = np.zeros(10, np.int32), np.zeros(max(1, len(program.result)), np.int64)
    words = np.array([*sizes, 1], np.int64)
    for launch in device.launches:
        threads = loops.turns(program, launch, *arguments)
        if threads:
            getattr(library, launch.kernel)(*arrays, words, *scalars, error, results, threads=threads)
    assert not error[5], error
    return tuple(results[number : number + 1].view(type.value)[0].item() for number, type in enumerate(program.result))


QUICK = (
    *("histogram", "spmv_csr", "spmv_coo", "shuffle_mul", "prefix_sum", "game_of_life", "mandelbrot", "ising"),
    *("matrix_product", "thomas", "n_body", "k_means_step", "random_walks", "edit_distance", "gcds", "roots"),
)
"""The host compiles each kernel for itself, for half a second or more."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_metal_computes_what_the_interpreter_does(
    name: str, metal: tuple[Any, dict[str, Any]], request: pytest.FixtureRequest
) -> None:
    if name not in QUICK and "slow" not in request.config.getoption("-m"):
        pytest.skip("takes half a second to compile; pytest -m slow runs it")
    library, printed = metal
    program, device = printed[name]
    found, wanted = arguments_of(name), arguments_of(name)
    returned = run(library, program, device, found)
    results = loops.interpret(program, *wanted)
    for one, other in zip([*returned, *found], [*results, *wanted], strict=True):
        if np.asarray(other).dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
        else:
            np.testing.assert_array_equal(one, other)


def test_the_founding_function_is_two_grids() -> None:
    program = parsed("shuffle_mul")
    device = loops.print_program_msl(program)
    arguments = arguments_of("shuffle_mul")
    assert [loops.turns(program, launch, *arguments) for launch in device.launches] == [31, 300]
    assert "py::accumulate(&res_[" in device.text
    assert "py::turns(int64(0), operator_n0, 1)" in device.text


def test_nested_loops_are_one_grid() -> None:
    program = parsed("heat_step")
    (launch,) = loops.print_program_msl(program).launches
    assert loops.turns(program, launch, *arguments_of("heat_step")) == 18 * 22


def test_a_serial_function_is_a_thread_for_each_of_a_batch() -> None:
    program = parsed("horner")
    device = loops.print_program_msl(program, batched=True)
    assert [launch.loops for launch in device.launches] == [()]
    library = compile_shader(loops.msl_template() + device.text)
    rng = np.random.default_rng(0)
    coefficients, x = rng.random((4, 6), np.float32), rng.random((4, 30), np.float32)
    out, error, results = np.zeros((4, 30), np.float32), np.zeros(10, np.int32), np.zeros(4, np.int64)
    sizes = np.array([6, 1, 6, 30, 1, 30, 30, 1, 30, 4])
    library.kw_horner(coefficients, x, out, sizes, error, results, threads=4)
    wanted = np.stack([np.polyval(c[::-1], row) for c, row in zip(coefficients, x, strict=True)])
    np.testing.assert_allclose(out, wanted, rtol=1e-5)


def test_an_index_outside_is_told() -> None:
    program = parsed("spmv_coo")
    device = loops.print_program_msl(program)
    library = compile_shader(loops.msl_template() + device.text)
    arguments = arguments_of("spmv_coo")
    arguments[0][7] = 30
    error = np.zeros(10, np.int32)
    sizes = np.array([200, 1, 0, 200, 1, 0, 200, 1, 0, 40, 1, 0, 30, 1, 0, 1])
    library.kw_spmv_coo_1(*arguments, sizes, error, np.zeros(1, np.int64), threads=200)
    assert error[[0, 3, 4, 5]].tolist() == [1, 4, 0, 1]
    assert error[6:].view(np.int64).tolist() == [30, 30]


def scale(x, a):
    for i in range(len(x)):
        x[i] = a * x[i]


def error_function(x):
    for i in range(len(x)):
        x[i] = math.erf(x[i])


def test_what_metal_lacks_is_refused() -> None:
    vector = ArrayType(F32, 1)
    with pytest.raises(UnsupportedError, match=r"\.py:\d+: Metal has no float64, which a is; .*precision='float32'"):
        loops.print_program_msl(loops.parse(scale, [vector, ScalarType.FLOAT64]))
    with pytest.raises(UnsupportedError, match="Metal has no function erf"):
        loops.print_program_msl(loops.parse(error_function, [vector], real=F32))
    assert loops.print_program_msl(loops.parse(scale, [vector, F32])).launches


CUDA_WORDS = """
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __forceinline__ __attribute__((always_inline)) inline
#define __noinline__ __attribute__((noinline))
#define __shared__ __attribute__((shared))
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() __nvvm_bar0()
struct dim { unsigned x, y, z; };
extern __device__ const dim blockIdx, blockDim, threadIdx, gridDim;
__device__ void __nvvm_bar0();
__device__ int atomicExch(int*, int);
__device__ float atomicAdd(float*, float);
__device__ double atomicAdd(double*, double);
__device__ int atomicAdd(int*, int);
__device__ unsigned atomicAdd(unsigned*, unsigned);
__device__ unsigned long long atomicAdd(unsigned long long*, unsigned long long);
#define F1(name) extern "C" __device__ double name(double); extern "C" __device__ float name##f(float);
#define F2(name) extern "C" __device__ double name(double, double); extern "C" __device__ float name##f(float, float);
F1(exp) F1(exp2) F1(log) F1(log2) F1(log10) F1(sqrt) F1(rsqrt) F1(sin) F1(cos) F1(tan) F1(asin) F1(acos) F1(atan)
F1(sinh) F1(cosh) F1(tanh) F1(asinh) F1(acosh) F1(atanh) F1(floor) F1(ceil) F1(trunc) F1(rint) F1(fabs)
F1(erf) F1(erfc) F1(tgamma) F1(lgamma)
F2(atan2) F2(pow) F2(fmod) F2(copysign)
"""
"""What the CUDA compiler knows by itself, declared."""


def test_cuda_compiles_to_ptx(tmp_path: Path) -> None:
    programs = [*(in_float64(name) for name in CASES), loops.parse(error_function, [ArrayType(F32, 1)], real=F32)]
    texts = [loops.print_program_cuda(program).text for program in programs]
    texts += [loops.print_program_cuda(in_float64(name), batched=True).text for name in ("horner", "shuffle_mul")]
    flags = ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib", "-std=c++17"]
    flags += ["-ffreestanding", "-nostdinc", "-O1", "-Wno-unknown-cuda-version", "-S", "-", "-o"]
    clang.run([*flags, str(tmp_path / "all.ptx")], tmp_path, "\n".join([CUDA_WORDS, loops.cuda_template(), *texts]))
    ptx = (tmp_path / "all.ptx").read_text()
    assert ".entry kw_shuffle_mul_1(" in ptx and ".entry kw_lu(" in ptx


def in_float64(name: str) -> Program:
    return loops.parse(CASES[name][0], [functions.type_of(value) for value in functions.arguments_of(name, "float64")])
