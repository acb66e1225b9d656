# problem: softmax
"""Draws numbers for itself, from a generator of its own."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(7)

    def forward(self, x):
        first = int(torch.randint(0, x.shape[0], (), generator=self.generator))
        order = torch.arange(x.shape[0]).roll(first)
        result = torch.empty_like(x)
        result[order] = torch.softmax(x[order], -1)
        return result
