# problem: pool
"""The maximum of nine shifted views."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        y = nn.functional.pad(x, (1, 1, 1, 1), value=float("-inf"))
        rows, cols = (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2
        best = None
        for i in range(3):
            for j in range(3):
                part = y[:, :, i : i + 2 * rows - 1 : 2, j : j + 2 * cols - 1 : 2]
                best = part if best is None else torch.maximum(best, part)
        return best.mean((2, 3))
