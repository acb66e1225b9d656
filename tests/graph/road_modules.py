"""Modules of different kinds, each small, that several tests of graph/ capture."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Of(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


X = torch.randn(4, 6)
CALLS: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]] = {
    "nested outputs": (Of(lambda x: {"a": [x + 1, (x * 2, None)], "n": 3}), (X,), {}),
    "named tuple": (Of(lambda x: Pair(x + 1, x.t())), (X,), {}),
    "nested inputs": (Of(lambda xs, scale: xs["a"][0] * scale + xs["b"]), ({"a": [X], "b": X * 2}, 3.0), {}),
    "keywords": (Of(lambda x, *, mask=None, flag=True: x * mask if flag else x), (X,), {"mask": X > 0, "flag": True}),
    "integers": (Of(lambda x, i: F.embedding(i, x)), (X, torch.tensor([[0, 3], [1, 1]])), {}),
    "booleans": (Of(lambda x, keep: torch.where(keep, x, -x)), (X, X > 0), {}),
    "bfloat16": (Of(lambda x: F.gelu(x) + 1), (X.bfloat16(),), {}),
    "passed through": (Of(lambda x: (x, x + 1, x[0])), (X,), {}),
    "one tensor twice": (Of(lambda x, y: x @ y.t()), (X, X), {}),
    "literal": (Of(lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), (X,), {}),
    "dropout": (nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)).eval(), (X,), {}),
    "transformer layer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.randn(2, 5, 8),), {}),
    "lstm": (nn.LSTM(6, 8, batch_first=True).eval(), (torch.randn(2, 3, 6),), {}),
    "empty": (Of(lambda x: x[:0].sum(0)), (X,), {}),
}
