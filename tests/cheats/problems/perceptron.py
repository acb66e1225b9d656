import torch
from torch import nn


class Model(nn.Module):
    """Two linear layers with a ReLU between, whose kink is where gradients jump: (24, 96) to (24, 40) float32."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(96, 64)
        self.outer = nn.Linear(64, 40)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


def get_inputs():
    return [torch.randn(24, 96)]


def get_init_inputs():
    return []
