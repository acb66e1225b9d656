# problem: chain
"""Each product in two halves."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        for _ in range(3):
            half = x.shape[1] // 2
            product = torch.addmm(x[:, :half] @ x[:, :half].t(), x[:, half:], x[:, half:].t())
            x = torch.tanh(product.mul_(0.0625))
        return x.sum(-1) / x.shape[1]
