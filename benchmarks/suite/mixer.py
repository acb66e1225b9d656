"""A layer of an MLP mixer: over places, then over channels."""

import torch
import torch.nn.functional as F
from torch import nn

PLACES = 197
WIDTH = 192
BATCH = 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.place1 = nn.Linear(PLACES, 96)
        self.place2 = nn.Linear(96, PLACES)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.channel1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.channel2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x).transpose(1, 2)
        x = x + self.place2(F.gelu(self.place1(y))).transpose(1, 2)
        return x + self.channel2(F.gelu(self.channel1(self.norm2(x))))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(BATCH, PLACES, WIDTH)]
