# problem: half
"""Multiplies in float32 and rounds once: better than the reference."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(256, 64, dtype=torch.bfloat16)

    def forward(self, x):
        y = F.linear(x.float(), self.inner.weight.float(), self.inner.bias.float())
        return torch.relu(y).bfloat16()
