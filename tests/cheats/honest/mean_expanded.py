# problem: mean
"""Row sums first, then their sum; a product instead of a square."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, target):
        difference = x - target
        rows = torch.einsum("ij,ij->i", difference, difference)
        return rows.sum() / x.numel()
