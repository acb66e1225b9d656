# problem: softmax
"""Blocks of columns with a running maximum, as attention kernels do."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        top = torch.full((x.shape[0], 1), float("-inf"))
        total = torch.zeros(x.shape[0], 1)
        for block in x.split(32, dim=1):
            higher = torch.maximum(top, block.amax(1, keepdim=True))
            total = total * torch.exp(top - higher) + torch.exp(block - higher).sum(1, keepdim=True)
            top = higher
        return torch.exp(x - top) / total
