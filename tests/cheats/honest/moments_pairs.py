# problem: moments
"""Two halves' statistics, put together (Chan, Golub and LeVeque 1979)."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        (one, two), half = x.chunk(2, -1), x.shape[-1] // 2
        (v1, m1), (v2, m2) = (torch.var_mean(part, -1, correction=0) for part in (one, two))
        variance = (v1 + v2) / 2 + ((m1 - m2) / 2).square()
        assert one.shape[-1] == half
        return (m1 + m2) / 2, {"variance": variance, "positive": (x > 0).int().sum(-1)}
