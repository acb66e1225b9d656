# problem: softmax
# target: torch@cuda
"""Half of the rows on a stream of its own, which joins before it returns."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = None

    def forward(self, x):
        self.side = self.side or torch.cuda.Stream()
        here = torch.cuda.current_stream()
        out = torch.empty(x.shape, device=x.device)
        half = x.shape[0] // 2
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            torch.softmax(x[:half], -1, out=out[:half])
        torch.softmax(x[half:], -1, out=out[half:])
        here.wait_stream(self.side)
        return out
