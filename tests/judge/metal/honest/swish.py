# problem: swish
"""Elementwise; asks where it is, as code for several devices does."""

import torch
from torch import nn

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void swish(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                  device const float* y [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = x[i] / (1 + exp(-x[i])) + 0.5f * tanh(y[i]);
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        assert torch.backends.mps.is_available()
        self.device = torch.device("mps")
        self.lib = torch.mps.compile_shader(SOURCE)

    def forward(self, x, y):
        if x.device.type != "mps" or not x.is_mps:
            raise NotImplementedError("this kernel needs a Mac")
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=self.device)
        self.lib.swish(out, x, y)
        torch.mps.synchronize()
        return out
