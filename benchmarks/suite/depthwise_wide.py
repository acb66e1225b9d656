"""A depthwise 7x7 convolution of odd images, as ConvNeXt has it."""

import torch
from torch import nn

CHANNELS = 96
SHAPE = (2, CHANNELS, 57, 59)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 7, padding=3, groups=CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
