import torch
from torch import nn


class Model(nn.Module):
    """As many numbers as an H200 has threads in one block a multiprocessor: (33792,)."""

    def forward(self, x):
        return x + 0.0


def get_inputs():
    return [torch.randn(132 * 256)]


def get_init_inputs():
    return []
