"""A whole encoder layer with token embeddings: integers in, a dict out."""

import torch
from torch import nn

BATCH = 2
SEQUENCE = 128
EMBED = 192
HEADS = 4
VOCABULARY = 1000


class Model(nn.Module):
    """tokens: (batch, sequence) int64, padding: (batch, sequence) bool, True where a token is padding"""

    def __init__(self, vocabulary: int, embed: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embed)
        self.norm = nn.LayerNorm(embed)
        self.attention = nn.MultiheadAttention(embed, heads, batch_first=True)
        self.inner_norm = nn.LayerNorm(embed)
        self.up = nn.Linear(embed, 4 * embed)
        self.down = nn.Linear(4 * embed, embed)

    def forward(self, tokens: torch.Tensor, padding: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embedding(tokens)
        normed = self.norm(x)
        x = x + self.attention(normed, normed, normed, key_padding_mask=padding, need_weights=False)[0]
        x = x + self.down(nn.functional.gelu(self.up(self.inner_norm(x))))
        return {"hidden": x, "logits": x[:, -1] @ self.embedding.weight.T}


def get_init_inputs() -> list:
    return [VOCABULARY, EMBED, HEADS]


def get_inputs() -> list:
    lengths = torch.randint(SEQUENCE // 2, SEQUENCE + 1, (BATCH, 1))
    return [torch.randint(0, VOCABULARY, (BATCH, SEQUENCE)), torch.arange(SEQUENCE) >= lengths]
