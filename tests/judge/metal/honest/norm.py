# problem: norm
"""One simdgroup for each row, by kernelwright's own door, the width as a function constant."""

import torch
from torch import nn

import kernelwright

KERNEL = """
#include <metal_stdlib>
using namespace metal;
constant int width [[function_constant(0)]];

kernel void norm(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                 device const float* gain [[buffer(2)]], uint row [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0;
  for (int i = lane; i < width; i += 32) sum = fma(x[row * width + i], x[row * width + i], sum);
  float scale = rsqrt(simd_sum(sum) / width + 1e-5f);
  for (int i = lane; i < width; i += 32) out[row * width + i] = x[row * width + i] * scale * gain[i];
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(192))
        self.lib = kernelwright.compile(KERNEL, language="metal", constants={0: 192})

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        self.lib.norm(out, x, self.gain, threads=(32 * x.shape[0],), group_size=(32,))
        return out
