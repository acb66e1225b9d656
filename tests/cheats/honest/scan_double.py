# problem: scan
"""In float64, rounded once."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, -1, dtype=torch.float64).float()
