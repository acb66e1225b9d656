# problem: softmax
# dtypes: float32, float64
"""By blocks of columns, with a running maximum and a running sum."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        top = torch.full_like(x[:, :1], float("-inf"))
        total = torch.zeros_like(top)
        for block in x.split(64, -1):
            new = torch.maximum(top, block.amax(-1, keepdim=True))
            scale = torch.where(top == new, torch.ones_like(top), torch.exp(top - new))
            total = total * scale + torch.exp(block - new).sum(-1, keepdim=True)
            top = new
        return torch.exp(x - top) / total
