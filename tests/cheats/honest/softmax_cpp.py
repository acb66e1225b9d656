# problem: softmax
# target: cpp@cpu
# with: softmax.cpp
"""Plain C++, one row after the other."""

import torch
from torch import nn

import kernelwright


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lib = kernelwright.compile(kernelwright.source("softmax.cpp"), language="cpp")

    def forward(self, x):
        x = x.contiguous()
        result = torch.empty_like(x)
        self.lib.softmax(result, x, x.shape[0], x.shape[1])
        return result
