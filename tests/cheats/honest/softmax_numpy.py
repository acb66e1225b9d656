# problem: softmax
"""NumPy, and back."""

import numpy as np
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.numpy()
        with np.errstate(all="ignore"):
            powers = np.exp(rows - rows.max(-1, keepdims=True))
            return torch.from_numpy(powers / powers.sum(-1, keepdims=True))
