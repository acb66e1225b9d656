# problem: transposed_conv
"""Zeros between the inputs, then an ordinary convolution with the kernel turned round."""

from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(4, 6, 3, stride=2)

    def forward(self, x):
        wide = x.new_zeros(*x.shape[:2], 2 * x.shape[2] - 1, 2 * x.shape[3] - 1)
        wide[:, :, ::2, ::2] = x
        turned = self.conv.weight.flip(2, 3).transpose(0, 1)
        return nn.functional.conv2d(wide, turned, self.conv.bias, padding=2)
