# problem: top
"""By sorting; another index of an equal value may come first."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        values, places = torch.sort(x, dim=-1, descending=True)
        return {"values": values[:, 0].contiguous(), "places": places[:, 0].contiguous()}
