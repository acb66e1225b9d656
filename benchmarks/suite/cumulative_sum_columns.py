"""Running sums down columns, in bfloat16."""

import torch
from torch import nn

ROWS = 1500
COLUMNS = 999


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, COLUMNS).bfloat16()]
