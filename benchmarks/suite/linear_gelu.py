"""A linear map and GELU, no size a power of two."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 509
IN = 771
OUT = 1003


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(IN, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, IN)]
