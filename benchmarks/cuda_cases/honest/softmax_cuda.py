# problem: softmax
# target: cuda@cuda
# with: softmax.cu
"""CUDA C++, one block a row."""

import torch
from torch import nn

import kernelwright


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.lib = kernelwright.compile(kernelwright.source("softmax.cu"), language="cuda")

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        self.lib.softmax(out, x, x.shape[1], threads=(256 * x.shape[0],), group_size=(256,))
        return out
