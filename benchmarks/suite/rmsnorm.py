"""Root-mean-square norm written out, in bfloat16 with float32 inside, as language models ship it."""

import torch
from torch import nn

BATCH = 4
SEQUENCE = 256
FEATURES = 1024


class Model(nn.Module):
    """x: (batch, sequence, features) bfloat16"""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def get_init_inputs() -> list:
    return [FEATURES]


def get_inputs() -> list:
    return [torch.randn(BATCH, SEQUENCE, FEATURES, dtype=torch.bfloat16)]
