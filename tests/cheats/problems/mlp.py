import torch
from torch import nn


class Model(nn.Module):
    """Linear, norm, GELU: (32, 128) to (32, 64) float32."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        return nn.functional.gelu(self.norm(self.inner(x)))


def get_inputs():
    return [torch.randn(32, 128)]


def get_init_inputs():
    return []
