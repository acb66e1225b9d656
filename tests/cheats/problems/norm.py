import torch
from torch import nn

DTYPE = torch.float32


class Model(nn.Module):
    """Rows by their root mean square, with a gain: (32, 192)."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(192, dtype=DTYPE))

    def forward(self, x):
        y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)
        return y.to(x.dtype) * self.gain


def get_inputs():
    return [torch.randn(32, 192).to(DTYPE)]


def get_init_inputs():
    return []
