# problem: loss
"""Log-softmax and the negative log-likelihood."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, classes):
        return nn.functional.nll_loss(torch.log_softmax(x.double(), -1), classes).float()
