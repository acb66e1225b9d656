# problem: swish
# dtypes: float32, float64
"""The sigmoid by half a hyperbolic tangent."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        return x * (0.5 + 0.5 * torch.tanh(0.5 * x)) + 0.5 * torch.tanh(y)
