"""The command line as a function, and a file to call it on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.app.cli import main

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_init_inputs():
    return []


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs `kernelwright ARGV` and gives its exit code, stdout and stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(argv))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A file with a class Net that needs no further options."""
    file = tmp_path / "net.py"
    file.write_text(NET)
    return file
