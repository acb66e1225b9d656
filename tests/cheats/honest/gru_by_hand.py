# problem: gru
"""The steps written out; the inputs' products are one product."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(10, 14, batch_first=True)

    def forward(self, x):
        inner, outer = self.gru.weight_hh_l0.t(), self.gru.weight_ih_l0.t()
        given = x @ outer + self.gru.bias_ih_l0
        state, states = x.new_zeros(x.shape[0], 14), []
        for step in range(x.shape[1]):
            r, z, n = given[:, step].chunk(3, -1)
            hr, hz, hn = (state @ inner + self.gru.bias_hh_l0).chunk(3, -1)
            n = torch.tanh(n + torch.sigmoid(r + hr) * hn)
            z = torch.sigmoid(z + hz)
            state = n + z * (state - n)
            states.append(state)
        return torch.stack(states, 1)
