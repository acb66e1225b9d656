# problem: norm
# dtypes: float32, float64, bfloat16
"""By the length of a row and one division."""

import torch
from torch import nn

DTYPE = torch.float32


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(192, dtype=DTYPE))

    def forward(self, x):
        wide = x.float() if x.dtype is torch.bfloat16 else x
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        return (wide / torch.sqrt(length * length / 192 + 1e-5) * self.gain).to(x.dtype)
