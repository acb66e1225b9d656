import torch
from torch import nn


class Model(nn.Module):
    """Self-attention with a causal mask: (2, 24, 32) float32."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width))


def get_inputs():
    return [torch.randn(2, 24, 32)]


def get_init_inputs():
    return [32, 4]
