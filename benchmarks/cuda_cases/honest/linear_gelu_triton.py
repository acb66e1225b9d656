# problem: linear_gelu
# target: triton@cuda
"""The product with bias and GELU in its epilogue, in full float32."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(out, x, w, b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        inside = start + k < K
        a = tl.load(x + m[:, None] * K + start + k[None, :], (m < M)[:, None] & inside[None, :], 0.0)
        c = tl.load(w + n[None, :] * K + start + k[:, None], (n < N)[None, :] & inside[:, None], 0.0)
        total = tl.dot(a, c, total, input_precision="ieee")
    total += tl.load(b + n, n < N, 0.0)[None, :]
    gelu = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    tl.store(out + m[:, None] * N + n[None, :], gelu, (m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 2048)

    def forward(self, x):
        x = x.contiguous()
        (m, k), n = x.shape, self.linear.out_features
        out = torch.empty(m, n, device=x.device)
        grid = (triton.cdiv(m, 64), triton.cdiv(n, 64))
        product[grid](out, x, self.linear.weight, self.linear.bias, m, n, k, BM=64, BN=64, BK=32)
        return out
