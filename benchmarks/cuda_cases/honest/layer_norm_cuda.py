# problem: layer_norm
# target: cuda@cuda
# with: layer_norm.cu
"""CUDA C++, one block a row."""

import torch
from torch import nn

import kernelwright


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1024)
        self.lib = kernelwright.compile(kernelwright.source("layer_norm.cu"), language="cuda")

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        norm = self.norm
        threads = (256 * x.shape[0],)
        self.lib.norm_rows(out, x, norm.weight, norm.bias, x.shape[1], norm.eps, threads=threads, group_size=(256,))
        return out
