# problem: mean
"""Summed in float64."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, target):
        return (x.double() - target.double()).square().mean().float()
