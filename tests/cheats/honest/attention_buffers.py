# problem: attention
# with: reference.py
"""Works in buffers of its own that every call uses again; the result is fresh memory."""

import torch
from reference import Model
from torch import nn


class ModelNew(Model):
    def __init__(self, *args):
        super().__init__(*args)
        self.scores = None

    def forward(self, x):
        batch, length, width = x.shape
        if self.scores is None or self.scores.shape[-1] != length or self.scores.shape[0] != batch:
            self.scores = torch.empty(batch, self.heads, length, length)
            self.hidden = torch.full((length, length), float("-inf")).triu(1)
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        torch.matmul(q, k.transpose(-1, -2), out=self.scores)
        self.scores.mul_((width // self.heads) ** -0.5).add_(self.hidden)
        torch.softmax(self.scores, -1, out=self.scores)
        return nn.functional.linear(
            (self.scores @ v).transpose(1, 2).reshape(batch, length, width), self.out.weight, self.out.bias
        )
