# problem: softmax
# ledger: aten::_softmax
"""No kernel at all: torch's own operator, on the CPU. Right, and the ledger says what it is."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.cpu(), -1).to("mps")
