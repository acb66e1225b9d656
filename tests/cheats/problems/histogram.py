import torch
from torch import nn


class Model(nn.Module):
    """How often each class occurs, and which rows hold any of class 3: (40, 60) int64."""

    def forward(self, x):
        return torch.bincount(x.reshape(-1), minlength=8), (x == 3).any(-1)


def get_inputs():
    return [torch.randint(0, 8, (40, 60))]


def get_init_inputs():
    return []
