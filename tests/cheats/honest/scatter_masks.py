# problem: scatter
"""One mask a row of the result, no product with zeros where numbers are not finite."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, places):
        return torch.stack([x[places == row].sum(0) for row in range(32)])
