"""Smooth L1 loss with a threshold of one half."""

import torch
import torch.nn.functional as F
from torch import nn

SHAPE = (999, 2001)


class Model(nn.Module):
    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(x, target, beta=0.5)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE), torch.randn(SHAPE)]
