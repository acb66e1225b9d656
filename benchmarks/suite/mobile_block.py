"""An inverted residual of a mobile network."""

import torch
import torch.nn.functional as F
from torch import nn

CHANNELS = 24
SHAPE = (4, CHANNELS, 56, 56)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        inside = 6 * CHANNELS
        self.expand = nn.Conv2d(CHANNELS, inside, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(inside)
        self.depthwise = nn.Conv2d(inside, inside, 3, padding=1, groups=inside, bias=False)
        self.norm2 = nn.BatchNorm2d(inside)
        self.project = nn.Conv2d(inside, CHANNELS, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu6(self.norm1(self.expand(x)))
        y = F.relu6(self.norm2(self.depthwise(y)))
        return x + self.norm3(self.project(y))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
