# problem: depthwise
"""Windows times taps, one sum over both."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(12, 12, 5, padding=2, groups=12)

    def forward(self, x):
        windows = nn.functional.pad(x, (2, 2)).unfold(-1, 5, 1)
        total = torch.einsum("bclk,ck->bcl", windows, self.conv.weight[:, 0]) + self.conv.bias[:, None]
        return nn.functional.gelu(total)
