"""The sum of all outputs of a linear map."""

import torch
from torch import nn

ROWS = 1024
IN = 768
OUT = 1024


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(IN, OUT)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * 1.5).sum(-1, keepdim=True)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, IN)]
