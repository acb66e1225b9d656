import torch
from torch import nn


class Model(nn.Module):
    """A product of matrices with bias and GELU: (512, 1024) to (512, 2048)."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 2048)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return []
