# problem: loss
"""Logarithm of the sum minus the class's own."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, classes):
        return (torch.logsumexp(x, -1) - x.gather(1, classes[:, None])[:, 0]).mean()
