# problem: softmax
# backward: yes
"""A function with a backward of its own."""

import torch
from torch import nn


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return y * (grad - (grad * y).sum(-1, keepdim=True))


class ModelNew(nn.Module):
    def forward(self, x):
        return Rows.apply(x)
