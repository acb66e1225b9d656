# problem: mlp
# backward: yes
"""A plain module: the norm by hand, its backward autograd's."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(128, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        y = self.inner(x)
        y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.norm.eps)
        y = torch.addcmul(self.norm.bias, y, self.norm.weight)
        return 0.5 * y * (1 + torch.erf(y * 0.7071067811865476))
