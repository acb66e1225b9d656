# problem: mean
"""Sixteen running sums, folded at the end."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, target):
        difference = (x - target).reshape(-1, 16)
        return (difference * difference).cumsum(0)[-1].sum() / x.numel()
