# problem: pooled
"""The long sum in eight parts."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4096, 8)

    def forward(self, x):
        parts = zip(x.chunk(8, 1), self.inner.weight.chunk(8, 1), strict=True)
        return sum(a @ b.t() for a, b in parts) + self.inner.bias
