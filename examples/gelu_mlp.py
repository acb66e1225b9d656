"""The feed-forward half of a transformer layer: two products with a GELU between.

This file has no `get_inputs`, so the shape is given on the command line; a range opens the number of rows:

    kernelwright optimize examples/gelu_mlp.py:MLP --input "f32[256,256]" --target cpu
    kernelwright optimize examples/gelu_mlp.py:MLP --input "f32[1..512@256,256]" --target cpu
"""

import torch
from torch import nn

FEATURES = 256
HIDDEN = 1024


class MLP(nn.Module):
    """x: (rows, features) -> the same shape."""

    def __init__(self, features: int = FEATURES, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))
