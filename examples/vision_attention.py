"""Attention over the pixels of a feature map, with a residual and a norm: the block that started this project.

kernelwright optimize examples/vision_attention.py:VisionAttention --target cpu
"""

import torch
from torch import nn

BATCH = 2
EMBED = 128
HEADS = 4
HEIGHT = 32
WIDTH = 32


class VisionAttention(nn.Module):
    """x: (batch, embed, height, width) -> the same shape; each pixel attends to all pixels of its image."""

    def __init__(self, embed: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(embed, heads)
        self.norm = nn.LayerNorm(embed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, embed, height, width = x.shape
        pixels = x.view(batch, embed, height * width).permute(2, 0, 1)
        mixed, _ = self.attention(pixels, pixels, pixels)
        return self.norm(mixed + pixels).permute(1, 2, 0).view(batch, embed, height, width)


def get_init_inputs() -> list:
    return [EMBED, HEADS]


def get_inputs() -> list:
    return [torch.randn(BATCH, EMBED, HEIGHT, WIDTH)]
