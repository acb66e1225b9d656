"""A causal depthwise convolution of sequences, as state-space models have it."""

import torch
import torch.nn.functional as F
from torch import nn

CHANNELS = 256
SHAPE = (8, CHANNELS, 1023)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, 4, padding=3, groups=CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x)[..., : x.shape[-1]])


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
