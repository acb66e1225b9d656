"""Batch norm with its running statistics, then ReLU."""

import torch
from torch import nn

CHANNELS = 64
SHAPE = (16, CHANNELS, 55, 57)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
