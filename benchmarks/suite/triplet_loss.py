"""A triplet margin loss."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 4096
WIDTH = 257


class Model(nn.Module):
    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return F.triplet_margin_loss(anchor, positive, negative, margin=1.0)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, WIDTH) for _ in range(3)]
