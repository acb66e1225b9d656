# problem: softmax
"""A function that TorchScript has compiled."""

import torch
from torch import nn


@torch.jit.script
def rows(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(x - x.amax(-1, keepdim=True))
    return y / y.sum(-1, keepdim=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return rows(x)
