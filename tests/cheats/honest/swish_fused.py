# problem: swish
# dtypes: float32, float64, float16, bfloat16
"""SiLU by its name, the rest in place."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, y):
        wide = torch.promote_types(x.dtype, torch.float32)
        result = torch.nn.functional.silu(x.to(wide))
        return result.add_(torch.tanh(y.to(wide)), alpha=0.5).to(x.dtype)
