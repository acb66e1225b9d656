"""Root-mean-square norm, as most language models use it. Memory-bound: one pass is enough, eager takes five.

kernelwright optimize examples/rmsnorm.py:RMSNorm --target cpu
"""

import torch
from torch import nn

ROWS = 2048
FEATURES = 1024


class RMSNorm(nn.Module):
    """x: (rows, features) -> the same shape, each row divided by its root mean square and scaled by a weight."""

    def __init__(self, features: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def get_init_inputs() -> list:
    return [FEATURES]


def get_inputs() -> list:
    return [torch.randn(ROWS, FEATURES)]
