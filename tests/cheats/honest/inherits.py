# problem: mlp
# with: reference.py
"""A subclass of the reference that packs its weights in prepare()."""

import torch
from reference import Model


class ModelNew(Model):
    def prepare(self):
        centred = self.inner.weight - self.inner.weight.mean(0)
        self.packed = centred.t().contiguous()
        self.shift = self.inner.bias - self.inner.bias.mean()

    def forward(self, x):
        y = torch.addmm(self.shift, x, self.packed)
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.norm.eps)
        return torch.nn.functional.gelu(torch.addcmul(self.norm.bias, y, self.norm.weight))
