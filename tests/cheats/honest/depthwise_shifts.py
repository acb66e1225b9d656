# problem: depthwise
"""Five shifted products, added."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(12, 12, 5, padding=2, groups=12)

    def forward(self, x):
        y = nn.functional.pad(x, (2, 2))
        taps = self.conv.weight[:, 0]
        total = self.conv.bias[:, None] + sum(y[..., k : k + x.shape[-1]] * taps[:, k : k + 1] for k in range(5))
        return nn.functional.gelu(total)
