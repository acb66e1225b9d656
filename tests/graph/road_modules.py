"""Modules of different kinds, each small, that several tests of graph/ capture."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LinearGelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 64)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.linear(x))


class NormResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.linear = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x))


class Multihead(nn.Module):
    def __init__(self, need_weights: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=self.need_weights)[0]


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(F.adaptive_avg_pool2d(F.relu(self.norm(self.conv(x))), 1).flatten(1))


class HandAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32, bias=False) for _ in range(3))
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).bool())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(32)
        scores = scores.masked_fill(~self.mask[: x.size(1), : x.size(1)], float("-inf"))
        return torch.softmax(scores, -1) @ v


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input, self.hidden = nn.Linear(32, 48), nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 48)
        for step in range(4):
            state = torch.tanh(self.input(x[:, step]) + self.hidden(state))
        return state


class CausalAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return attended.transpose(1, 2).reshape(batch, length, 32)


class Tied(nn.Module):
    """Tied weights, a plain tensor attribute and a literal."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 32), nn.Linear(32, 32)
        self.b.weight = self.a.weight
        self.table = torch.arange(32.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x))) * self.table + torch.tensor(2.5)


class Road(NamedTuple):
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]


ROADS = {
    "linear_gelu": Road(LinearGelu, (7, 32)),
    "norm_residual": Road(NormResidual, (7, 32)),
    "multihead": Road(Multihead, (5, 16, 32)),
    "convolutional": Road(Convolutional, (5, 3, 8, 8)),
    "hand_attention": Road(HandAttention, (5, 16, 32)),
    "recurrent": Road(Recurrent, (5, 4, 32)),
    "causal_attention": Road(CausalAttention, (5, 16, 32)),
    "tied": Road(Tied, (7, 32)),
}
