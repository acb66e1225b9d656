# problem: softmax
"""One row's function, mapped over the rows."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        powers = torch.vmap(lambda row: torch.exp(row - row.amax()))(x)
        return torch.vmap(lambda row: row / row.sum())(powers)
