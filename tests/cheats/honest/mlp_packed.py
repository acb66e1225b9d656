# problem: mlp
"""Linear and norm folded by prepare(): rows centred beforehand."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def prepare(self):
        weight = self.inner.weight.double()
        self.centred = (weight - weight.mean(0)).t().float().contiguous()
        self.shift = (self.inner.bias.double() - self.inner.bias.double().mean()).float()

    def forward(self, x):
        y = torch.addmm(self.shift, x, self.centred)
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.norm.eps)
        return nn.functional.gelu(torch.addcmul(self.norm.bias, y, self.norm.weight))
