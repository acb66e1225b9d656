# problem: layer_norm
# target: triton@cuda
"""One program a row; mean, then variance of what is left."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows(out, x, w, b, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    v = tl.load(x + row * cols + at, inside, 0.0)
    v = tl.where(inside, v - tl.sum(v, 0) / cols, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(v * v, 0) / cols + eps)
    made = v * scale * tl.load(w + at, inside, 0.0) + tl.load(b + at, inside, 0.0)
    tl.store(out + row * cols + at, made, inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1024)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count, cols = x.shape
        block = triton.next_power_of_2(cols)
        rows[(count,)](out, x, self.norm.weight, self.norm.bias, cols, self.norm.eps, BLOCK=block)
        return out
