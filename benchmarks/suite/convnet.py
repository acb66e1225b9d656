"""A small convolutional net with batch norms, a residual and a pooled head."""

import torch
from torch import nn

BATCH = 4
SIZE = 32
CHANNELS = 32


class Model(nn.Module):
    """images: (batch, 3, size, size) -> (batch, 10)"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.stem_norm = nn.BatchNorm2d(channels)
        self.inner = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.inner_norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem_norm(self.stem(images)))
        x = torch.relu(x + self.inner_norm(self.inner(x)))
        return self.head(nn.functional.max_pool2d(x, 2).mean((2, 3)))


def get_init_inputs() -> list:
    return [CHANNELS]


def get_inputs() -> list:
    return [torch.randn(BATCH, 3, SIZE, SIZE)]
