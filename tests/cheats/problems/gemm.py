import torch
from torch import nn

DTYPE = torch.float32


class Model(nn.Module):
    """A product with a transposed factor: (48, 160) by (160, 40)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(40, 160).to(DTYPE))

    def forward(self, x):
        return x @ self.weight.t()


def get_inputs():
    return [torch.randn(48, 160).to(DTYPE)]


def get_init_inputs():
    return []
