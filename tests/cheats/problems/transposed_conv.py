import torch
from torch import nn


class Model(nn.Module):
    """A transposed convolution with stride 2: (2, 4, 9, 7) to (2, 6, 19, 15) float32."""

    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(4, 6, 3, stride=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(2, 4, 9, 7)]


def get_init_inputs():
    return []
