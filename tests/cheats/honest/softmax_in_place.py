# problem: softmax
# dtypes: float32, float64, bfloat16
"""Works in place on a copy of its own."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.to(torch.promote_types(x.dtype, torch.float32), copy=True)
        y.sub_(y.amax(-1, keepdim=True)).exp_()
        return y.div_(y.sum(-1, keepdim=True)).to(x.dtype)
