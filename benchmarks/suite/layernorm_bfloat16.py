"""Layer norm of odd rows in bfloat16, with weights in it."""

import torch
from torch import nn

ROWS = 1023
COLUMNS = 1025


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(COLUMNS, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, COLUMNS).bfloat16()]
