"""A linear map and batch norm with running statistics."""

import torch
from torch import nn

ROWS = 1024
IN = 512
OUT = 769


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(IN, OUT)
        self.norm = nn.BatchNorm1d(OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, IN)]
