"""Nothing here is a multiple of a vector: odd rows, odd columns, a row broadcast down and a column broadcast across."""

import torch
from torch import nn

ROWS = 1021
COLUMNS = 1531


class Model(nn.Module):
    """x: (rows, columns), shift: (columns,), factor: (rows, 1)"""

    def forward(self, x: torch.Tensor, shift: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x + shift) * factor
        return y - y.amax(-1, keepdim=True)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS), torch.rand(ROWS, 1) + 0.5]
