"""Convolution, batch norm with running statistics, ReLU."""

import torch
from torch import nn

SHAPE = (8, 16, 56, 56)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
