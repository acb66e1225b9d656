"""Far more work than bytes: whoever puts it off gains much, and is late by more than any noise."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(3):
            x = torch.tanh(x @ x.t() / 16)
        return x.mean(-1)


def get_inputs():
    return [torch.randn(192, 192)]


def get_init_inputs():
    return []
