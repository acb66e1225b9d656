# problem: pool
# backward: yes
"""Maxima of unfolded windows; where two are equal the first takes all, as the reference has it."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        padded = nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        windows = padded.unfold(2, 3, 2).unfold(3, 3, 2).flatten(-2)
        return torch.gather(windows, -1, windows.argmax(-1, keepdim=True)).squeeze(-1).mean((2, 3))
