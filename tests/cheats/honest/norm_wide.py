# problem: norm
# dtypes: float32, float64, float16, bfloat16
"""All of it in the wider dtype, gain included, rounded once."""

import torch
from torch import nn

DTYPE = torch.float32


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(192, dtype=DTYPE))

    def forward(self, x):
        y = x.double() if x.dtype in (torch.float32, torch.float64) else x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.gain
        return y.to(x.dtype)
