"""Causal self-attention written out with products and a softmax."""

import math

import torch
from torch import nn

BATCH = 2
SEQUENCE = 256
EMBED = 128
HEADS = 4


class Model(nn.Module):
    """x: (batch, sequence, embed)"""

    visible: torch.Tensor

    def __init__(self, embed: int, heads: int, sequence: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(embed, 3 * embed)
        self.merge = nn.Linear(embed, embed)
        self.register_buffer("visible", torch.tril(torch.ones(sequence, sequence)).bool())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, embed = x.shape
        parts = self.project(x).view(batch, sequence, 3, self.heads, embed // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(embed // self.heads)
        scores = scores.masked_fill(~self.visible[:sequence, :sequence], float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ value
        return self.merge(mixed.transpose(1, 2).reshape(batch, sequence, embed))


def get_init_inputs() -> list:
    return [EMBED, HEADS, SEQUENCE]


def get_inputs() -> list:
    return [torch.randn(BATCH, SEQUENCE, EMBED)]
