# problem: softmax
"""One row's function, mapped over the rows."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: torch.exp(row - torch.logsumexp(row, 0)))(x)
