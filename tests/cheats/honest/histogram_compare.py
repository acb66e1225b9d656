# problem: histogram
"""Each class compared with everything."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.stack([(x == kind).sum() for kind in range(8)]), (x == 3).sum(-1) > 0
