import torch
from torch import nn


class Model(nn.Module):
    """A linear in bfloat16: (16, 256) to (16, 64)."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(256, 64, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.relu(self.inner(x))


def get_inputs():
    return [torch.randn(16, 256).bfloat16()]


def get_init_inputs():
    return []
