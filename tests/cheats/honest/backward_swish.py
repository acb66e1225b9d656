# problem: swish
# backward: yes
"""A function with a backward of its own."""

import torch
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        s, t = torch.sigmoid(x), torch.tanh(y)
        ctx.save_for_backward(x, s, t)
        return x * s + 0.5 * t

    @staticmethod
    def backward(ctx, grad):
        x, s, t = ctx.saved_tensors
        return grad * s * (1 + x * (1 - s)), grad * 0.5 * (1 - t * t)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return Swish.apply(x, y)
