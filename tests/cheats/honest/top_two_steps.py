# problem: top
"""The largest first, then where it is."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        places = torch.argmax(x, -1)
        return {"values": x.gather(-1, places[:, None])[:, 0], "places": places}
