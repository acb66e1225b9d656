# problem: softmax
"""Too small for two threads: it takes one and gives the others back."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return torch.softmax(x, -1)
        finally:
            torch.set_num_threads(threads)
