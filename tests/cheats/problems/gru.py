import torch
from torch import nn


class Model(nn.Module):
    """A gated recurrent unit over 12 steps: (3, 12, 10) to (3, 12, 14) float32."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(10, 14, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


def get_inputs():
    return [torch.randn(3, 12, 10)]


def get_init_inputs():
    return []
