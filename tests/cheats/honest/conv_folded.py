# problem: conv
# with: reference.py
"""The batch norm's statistics folded into the convolution, in float64, whenever weights change."""

import torch
from reference import Model
from torch import nn


class ModelNew(Model):
    def prepare(self):
        norm = self.norm
        factor = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        self.folded = (self.conv.weight.double() * factor[:, None, None, None]).float()
        self.shift = ((self.conv.bias.double() - norm.running_mean.double()) * factor + norm.bias.double()).float()

    def forward(self, x):
        return torch.relu(nn.functional.conv2d(x, self.folded, self.shift, padding=1))
