"""Instance norm of images."""

import torch
from torch import nn

CHANNELS = 32
SHAPE = (8, CHANNELS, 64, 63)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm2d(CHANNELS, affine=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
