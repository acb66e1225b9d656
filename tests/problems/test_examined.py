"""What was found of a module is recalled where nothing has changed, and only there."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

from kernelwright.problems import from_module
from kernelwright.problems.subject import Subject


class Pair(NamedTuple):
    """Results of a class that the problem's text has to import."""

    one: torch.Tensor
    other: torch.Tensor


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    return tmp_path


def test_what_was_examined_is_not_run_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Root(nn.Module):
        """Whose input must not be negative."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.scale * x).sqrt().sum(-1)

    runs = []
    inner = Subject.refuse_unrepeatable
    monkeypatch.setattr(Subject, "refuse_unrepeatable", lambda *given: (runs.append(1), inner(*given))[1])
    model, x = Root(), torch.rand(4, 8)
    first, _ = from_module(model, [x])
    again, _ = from_module(model, [x.clone()])
    assert len(runs) == 1 and again == first and again.region is not None
    assert again.signature.tensors[0].low is not None  # found by running it, as the text says nothing of it
    other = x.clone()
    other[0, 0] += 1
    from_module(model, [other])
    with torch.no_grad():
        model.scale.add_(1)
    from_module(model, [x])
    assert len(runs) == 3


def test_a_result_that_is_not_finite_is_told_of_each_time(home: Path) -> None:
    model = nn.LogSigmoid()
    for _ in range(2):
        with pytest.warns(UserWarning, match="NaN or Inf"):
            from_module(model, [torch.full((2, 3), float("nan"))])


def test_a_damaged_record_is_made_anew(home: Path) -> None:
    model, x = nn.Softplus(), torch.rand(4, 8)
    first, _ = from_module(model, [x])
    for damaged in ("{", "[]", '{"signature": 3, "region": null, "opaque": ""}'):
        (path,) = (home / "problems").rglob("*.json")
        path.write_text(damaged)
        assert from_module(model, [x])[0] == first


def test_what_hangs_on_more_than_its_text_is_not_kept(home: Path) -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor) -> Pair:
            return Pair(x + 1, x * 2)

    from_module(Own(), [torch.rand(4, 8)])
    assert not list((home / "problems").rglob("*.json"))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool, torch.float16, torch.int8])
def test_weights_of_any_type_are_told_apart(home: Path, dtype: torch.dtype) -> None:
    model = nn.Linear(8, 4)
    model.register_buffer("held", torch.zeros(3, dtype=dtype))
    for value in (0, 1, 1):
        model.held.fill_(value)
        from_module(model, [torch.ones(4, 8)])
    assert len(list((home / "problems").rglob("*.json"))) == 2
