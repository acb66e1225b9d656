# problem: softmax
"""Returns a view whose sign bit is still to be applied."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch._neg_view(-torch.softmax(x, -1))
