# problem: pool
"""Windows laid out, then the largest of each."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        return y.unfold(2, 3, 2).unfold(3, 3, 2).amax((-1, -2)).flatten(2).mean(-1)
