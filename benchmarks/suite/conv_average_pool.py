"""A convolution whose results are averaged in squares."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPE = (8, 16, 66, 66)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(self.conv(x) * 0.5, 4)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
