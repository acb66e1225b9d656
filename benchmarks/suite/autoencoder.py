"""A small convolutional autoencoder, down and up again."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPE = (8, 3, 64, 64)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(16, 32, 3, padding=1)
        self.up1 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.up2 = nn.ConvTranspose2d(16, 3, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.down1(x))
        y = F.max_pool2d(torch.relu(self.down2(y)), 2)
        y = torch.relu(self.up1(y))
        return torch.sigmoid(self.up2(y))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.rand(SHAPE)]
