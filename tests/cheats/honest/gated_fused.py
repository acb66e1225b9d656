# problem: gated
"""The branch added in one step."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)
        self.gate = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        return torch.addcmul(x, self.gate, torch.tanh(self.inner(x)))
