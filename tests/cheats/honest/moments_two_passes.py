# problem: moments
"""The mean first, then what is left."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        mean = x.mean(-1)
        variance = (x - mean[:, None]).square().mean(-1)
        return mean, {"variance": variance, "positive": torch.count_nonzero(x > 0, -1)}
