"""NVIDIA's targets as far as no GPU is needed: what is missing is said, CUDA C++ is read and compiled."""

import pytest

from kernelwright import plugins
from kernelwright.errors import CompileError, LaunchError
from kernelwright.targets import compile
from kernelwright.targets.devices import cuda
from kernelwright.targets.entry.signature import kernels
from kernelwright.targets.languages.cuda import _TYPES, CudaKernel
from kernelwright.toolchain import nvrtc

SCALE = """
#include <cuda_fp16.h>
extern "C" __global__ void __launch_bounds__(256) scale(float* __restrict__ out, const float4* x, int n, float f) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i].x * f + __shfl_down_sync(~0u, out[i], 1);
}
template <class T> __device__ T twice(T x) { return x + x; }
__global__ void kernel(double* out, size_t n) { out[n] = twice(1.0); }
"""
compiles = pytest.mark.skipif(bool(nvrtc.missing()), reason=nvrtc.missing() or "")


@pytest.mark.parametrize("name", ["torch@cuda", "triton@cuda", "cuda@cuda"])
def test_a_target_that_cannot_run_here_says_why(name: str) -> None:
    target = plugins.find("targets", "Target", name)()
    assert f"{target.language}@{target.device}" == name and target.native
    if not cuda.count():
        assert "there is no NVIDIA GPU here" in (target.missing() or "")


def test_kernels_are_read_out_of_cuda_text() -> None:
    scale, kernel = kernels(SCALE, "kernel.cu", "__global__", _TYPES)
    assert [(item.name, item.type, item.pointer, item.const) for item in scale.parameters] == [
        ("out", "float32", True, False),
        ("x", "float32", True, True),
        ("n", "int32", False, False),
        ("f", "float32", False, False),
    ]
    assert str(kernel) == "kernel(out, n)" and kernel.parameters[1].type == "int64"


def test_a_text_without_kernels_is_refused() -> None:
    with pytest.raises(CompileError, match="no kernel found; write one as `__global__ void"):
        kernels("int f() { return 1; }", "kernel.cu", "__global__", _TYPES)


def test_a_tensor_on_the_processor_is_refused_before_any_gpu_is_asked() -> None:
    import torch

    found, _ = kernels(SCALE, "kernel.cu", "__global__", _TYPES)
    kernel = CudaKernel(nvrtc.library() or __file__, found, "scale")  # type: ignore[arg-type]
    x = torch.ones(4)
    with pytest.raises(LaunchError, match="argument 1, 'out': expected a contiguous float32 tensor on the GPU"):
        kernel(x, x, 4, 1.0, threads=(4,))
    with pytest.raises(LaunchError, match="takes 4 arguments, got 1"):
        kernel(x, threads=(4,))


@compiles
def test_cuda_text_compiles_to_machine_code() -> None:
    text = SCALE if nvrtc.includes() else SCALE.replace("#include <cuda_fp16.h>", "")
    library = compile(text, language="cuda")
    assert dir(library) == ["kernel", "scale"]
    assert library.path.read_bytes()[:4] == b"\x7fELF"


@compiles
def test_what_nvcc_would_know_is_known() -> None:
    text = """
    #include <cuda_runtime.h>
    #include <cstdint>
    #include <math.h>
    __device__ constexpr float lowest = -INFINITY;
    extern "C" __global__ void fill(float* out, int64_t n) {
        uint32_t i = threadIdx.x;
        if (i < n) out[i] = i ? fmaxf(lowest, -FLT_MAX) * float(M_PI) : NAN;
    }
    """
    assert dir(compile(text, language="cuda")) == ["fill"]


@compiles
def test_the_compilers_words_name_the_line() -> None:
    with pytest.raises(CompileError, match=r"identifier \"y\" is undefined"):
        compile("__global__ void a(float* x) { x[0] = y; }", language="cuda")


@compiles
def test_no_file_of_the_machine_can_be_included() -> None:
    with pytest.raises(CompileError, match="Permission denied"):
        compile('#include "/etc/passwd"\n__global__ void a(float* x) { x[0] = 1; }', language="cuda")
