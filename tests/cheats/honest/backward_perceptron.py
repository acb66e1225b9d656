# problem: perceptron
# backward: yes
"""Both layers in one function, whose backward keeps the hidden layer's sign in place of its input."""

import torch
from torch import nn


class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, inner, inner_bias, outer, outer_bias):
        hidden = torch.addmm(inner_bias, x, inner.t()).relu_()
        ctx.save_for_backward(x, hidden, inner, outer)
        return torch.addmm(outer_bias, hidden, outer.t())

    @staticmethod
    def backward(ctx, grad):
        x, hidden, inner, outer = ctx.saved_tensors
        back = (grad @ outer).mul_(hidden > 0)
        return back @ inner, back.t() @ x, back.sum(0), grad.t() @ hidden, grad.sum(0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(96, 64)
        self.outer = nn.Linear(64, 40)

    def forward(self, x):
        return Both.apply(x, self.inner.weight, self.inner.bias, self.outer.weight, self.outer.bias)
