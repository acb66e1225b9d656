# problem: mlp
"""The library's own kernels, called in another way."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        y = torch.addmm(self.inner.bias, x, self.inner.weight.t())
        y = torch.layer_norm(y, (64,), self.norm.weight, self.norm.bias, self.norm.eps)
        return torch.nn.functional.gelu(y)
