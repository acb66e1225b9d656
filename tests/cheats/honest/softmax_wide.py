# problem: softmax
# dtypes: float32, float64, float16, bfloat16
"""Computes in the next wider dtype and rounds once."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        wide = x.double() if x.dtype is torch.float32 else x.float() if x.dtype is not torch.float64 else x
        return torch.softmax(wide, -1).to(x.dtype)
