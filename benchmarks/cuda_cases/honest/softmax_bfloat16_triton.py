# problem: softmax_bfloat16
# target: triton@cuda
"""Reads and writes bfloat16, computes in float32."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def rows(out, x, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * cols + at, at < cols, -float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    e = tl.where(v == v, e, v)
    tl.store(out + row * cols + at, (e / tl.sum(e, 0)).to(tl.bfloat16), at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count, cols = x.shape
        rows[(count,)](out, x, cols, BLOCK=triton.next_power_of_2(cols))
        return out
