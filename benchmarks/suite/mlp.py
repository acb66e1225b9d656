"""A gated feed-forward block (SwiGLU)."""

import torch
from torch import nn

ROWS = 256
FEATURES = 256
HIDDEN = 688


class Model(nn.Module):
    """x: (rows, features)"""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.gate = nn.Linear(features, hidden, bias=False)
        self.up = nn.Linear(features, hidden, bias=False)
        self.down = nn.Linear(hidden, features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def get_init_inputs() -> list:
    return [FEATURES, HIDDEN]


def get_inputs() -> list:
    return [torch.randn(ROWS, FEATURES)]
