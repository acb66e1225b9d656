# problem: conv
"""In channels-last memory; the result is handed over as it lies."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        y = self.conv(x.to(memory_format=torch.channels_last))
        return torch.relu_(self.norm(y))
