# problem: relu
"""clamp keeps NaN."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clamp(min=0.0)
