import torch
from torch import nn


class Model(nn.Module):
    """A residual branch that begins at zero: (32, 64) float32."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)
        self.gate = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        return x + self.gate * torch.tanh(self.inner(x))


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
