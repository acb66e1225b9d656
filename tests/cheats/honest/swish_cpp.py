# problem: swish
# target: cpp@cpu
"""One pass in C++."""

import torch
from torch import nn

import kernelwright

KERNEL = """
kernel void swish(float* out, const float* x, const float* y, int64 n) {
  parallel_for(n, 1024, [&](int64 begin, int64 end) {
    for (int64 i = begin; i < end; ++i) out[i] = x[i] / (1.0f + math::exp(-x[i])) + 0.5f * math::tanh(y[i]);
  });
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lib = kernelwright.compile(KERNEL, language="cpp")

    def forward(self, x, y):
        result = torch.empty(x.shape)
        self.lib.swish(result, x.contiguous(), y.contiguous(), x.numel())
        return result
