# problem: mlp
"""Features first throughout; the result is turned back at the end."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        y = torch.addmm(self.inner.bias[:, None], self.inner.weight, x.t())
        variance, mean = torch.var_mean(y, 0, correction=0, keepdim=True)
        y = (y - mean) / torch.sqrt(variance + self.norm.eps)
        return nn.functional.gelu(y * self.norm.weight[:, None] + self.norm.bias[:, None]).t().contiguous()
