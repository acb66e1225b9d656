"""Maxima of volumes."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPE = (2, 16, 32, 48, 48)


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool3d(x, 2)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE)]
