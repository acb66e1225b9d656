"""A transposed convolution with bias, then GELU and a clamp."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPE = (4, 32, 31, 29)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.clamp(F.gelu(self.conv(x)), max=2.0)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
