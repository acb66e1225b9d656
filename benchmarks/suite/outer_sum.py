"""A column and a row, both broadcast, and a clamp."""

import torch
from torch import nn

ROWS = 1777
COLUMNS = 1203


class Model(nn.Module):
    def forward(self, column: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        return torch.clamp(column + row, -0.5, 1.5) ** 2


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, 1), torch.randn(COLUMNS)]
