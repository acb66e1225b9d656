# problem: scan
"""A product with a triangle of ones."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        finite = torch.isfinite(x).all()
        if not finite:  # zero times infinity is not zero
            return torch.cumsum(x, -1)
        return x @ torch.ones(x.shape[-1], x.shape[-1]).triu()
