# problem: softmax
"""Returns its result in columns: the same numbers with other strides."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.t().contiguous(), 0).t()
