import torch
from torch import nn


class Model(nn.Module):
    """A depthwise convolution along time: (2, 12, 50) float32."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(12, 12, 5, padding=2, groups=12)

    def forward(self, x):
        return nn.functional.gelu(self.conv(x))


def get_inputs():
    return [torch.randn(2, 12, 50)]


def get_init_inputs():
    return []
