"""Several reductions of one tensor, each of which reads it again in eager mode."""

import torch
from torch import nn

ROWS = 2048
COLUMNS = 1024


class Model(nn.Module):
    """x: (rows, columns) -> mean, deviation and largest magnitude of each row"""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean = x.mean(-1)
        deviation = (x - mean[:, None]).square().mean(-1).sqrt()
        return mean, deviation, x.abs().amax(-1)


def get_init_inputs() -> list:
    return []


def get_inputs() -> list:
    return [torch.randn(ROWS, COLUMNS)]
