# problem: softmax
# target: torch@DEVICE
"""Works in place on a copy of its own."""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.sub_(y.amax(-1, keepdim=True)).exp_()
        return y.div_(y.sum(-1, keepdim=True))
