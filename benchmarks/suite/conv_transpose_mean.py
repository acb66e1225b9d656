"""The mean of each channel of a transposed convolution."""

import torch
from torch import nn

SHAPE = (8, 16, 48, 47)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(16, 24, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).mean((2, 3))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
