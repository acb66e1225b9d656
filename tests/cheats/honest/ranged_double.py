# problem: ranged
"""Computes in float64 and rounds at the end."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(96))

    def forward(self, x):
        wide = torch.exp(2.0 * x.double().clamp(-300, 300))
        return ((wide - 1.0) / (wide + 1.0) * self.gain.double()).float()
