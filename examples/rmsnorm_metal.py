"""A Metal kernel for examples/rmsnorm.py, written for a Mac and judged on any machine:

kernelwright judge examples/rmsnorm.py:RMSNorm examples/rmsnorm_metal.py --target metal
"""

import torch
from torch import nn

# One threadgroup a row: sums of squares by simdgroups, then over threadgroup memory.
SOURCE = """
#include <metal_stdlib>
using namespace metal;

// x, out: (rows, features) float32; weight: (features,)
kernel void rmsnorm(device float* out [[buffer(0)]],
                    device const float* x [[buffer(1)]],
                    device const float* weight [[buffer(2)]],
                    constant int& features [[buffer(3)]],
                    constant float& eps [[buffer(4)]],
                    uint row [[threadgroup_position_in_grid]],
                    uint tid [[thread_position_in_threadgroup]],
                    uint threads [[threads_per_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]],
                    uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32];
  x += row * features;
  out += row * features;
  if (simd == 0) partial[lane] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0;
  for (int i = tid; i < features; i += threads) sum = fma(x[i], x[i], sum);
  sum = simd_sum(sum);
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float scale = rsqrt(simd_sum(partial[lane]) / features + eps);
  for (int i = tid; i < features; i += threads) out[i] = x[i] * scale * weight[i];
}
"""
THREADS = 256


class ModelNew(nn.Module):
    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps
        self.lib = torch.mps.compile_shader(SOURCE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty(x.shape, device="mps")
        rows = x.numel() // x.shape[-1]
        self.lib.rmsnorm(
            out,
            x,
            self.weight,
            x.shape[-1],
            self.eps,
            threads=(THREADS * rows,),
            group_size=(THREADS,),
            arg_casts={3: "int32"},
        )
        return out
