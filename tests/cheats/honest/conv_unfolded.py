# problem: conv
"""The convolution as a product of matrices, its result a view made contiguous."""

import torch
from torch import nn
from torch.nn import functional as F


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        columns = F.unfold(x, 3, padding=1).transpose(1, 2)
        y = F.linear(columns, self.conv.weight.flatten(1), self.conv.bias).transpose(1, 2)
        return torch.relu(self.norm(y.reshape(x.shape[0], 16, *x.shape[2:]))).contiguous()
