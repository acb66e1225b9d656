"""A choice between two tensors by a comparison, then a fill by a mask."""

import torch
from torch import nn

SHAPE = (1024, 2048)


class Model(nn.Module):
    def forward(self, x: torch.Tensor, other: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = torch.where(x > other, x, other * 0.1)
        return y.masked_fill(mask, 0.0)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(SHAPE), torch.randn(SHAPE), torch.rand(SHAPE) < 0.2]
