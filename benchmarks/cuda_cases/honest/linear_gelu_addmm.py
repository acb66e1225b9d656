# problem: linear_gelu
# target: torch@DEVICE
"""The library's product with the bias added, and GELU by its formula, in place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 2048)

    def forward(self, x):
        y = torch.addmm(self.linear.bias, x, self.linear.weight.t())
        return torch.special.erf(y * 0.5**0.5).add_(1.0).mul_(0.5).mul_(y)
