# problem: norm
# target: cpp@cpu
"""C++, one row after the other, sums in several lanes."""

import torch
from torch import nn

import kernelwright

KERNEL = """
kernel void norm(float* out, const float* x, const float* gain, int64 rows, int64 cols) {
  parallel_for(rows, 8, [&](int64 begin, int64 end) {
    for (int64 row = begin; row < end; ++row) {
      const float* in = x + row * cols;
      float lanes[16] = {};
      for (int64 i = 0; i < cols; ++i) lanes[i % 16] += in[i] * in[i];
      float total = 0;
      for (float lane : lanes) total += lane;
      float scale = 1.0f / math::sqrt(total / cols + 1e-5f);
      for (int64 i = 0; i < cols; ++i) out[row * cols + i] = in[i] * scale * gain[i];
    }
  });
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(192))
        self.lib = kernelwright.compile(KERNEL, language="cpp")

    def forward(self, x):
        x = x.contiguous()
        result = torch.empty_like(x)
        self.lib.norm(result, x, self.gain, x.shape[0], x.shape[1])
        return result
