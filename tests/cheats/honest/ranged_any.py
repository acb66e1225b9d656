# problem: ranged
# target: cpp@cpu
# with: gate.cpp
"""C++ for any number of rows."""

import torch
from torch import nn

import kernelwright


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.empty(96))
        self.lib = kernelwright.compile(kernelwright.source("gate.cpp"), language="cpp")

    def forward(self, x):
        x = x.contiguous()
        result = torch.empty_like(x)
        if x.numel():
            self.lib.gate(result, x, self.gain, x.shape[0], x.shape[1])
        return result
