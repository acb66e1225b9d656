import torch
from torch import nn


class Model(nn.Module):
    """Scaled rows: (rows, 96) float32, rows from 1 to 64."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, 96))

    def forward(self, x):
        return torch.tanh(x) * self.gain


def get_init_inputs():
    return []
