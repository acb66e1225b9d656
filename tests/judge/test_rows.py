"""The oracle in pieces gives what the whole gives, where rows are independent and only there."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import examination
from kernelwright.judge.budget import Allowance, allowance
from kernelwright.judge.examination import examine
from kernelwright.judge.reference import Reference
from kernelwright.judge.rows import Pieces, _near
from kernelwright.records import Case, Problem

SMALL = Pieces(whole_bytes=64 * 64, piece_bytes=2048, few_bytes=0)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on a busy machine make small tensors a hundred times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FILE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(32, 32)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x, y):
        BODY


def get_inputs():
    return [torch.randn(32, 32), torch.randn(32, 32)]
"""
INDEPENDENT = (
    "return torch.softmax(self.inner(x) + y, -1)",
    "return x @ y",  # y has the length of the rows too, and belongs to all of them
    "return x - y.mean(0)",
    "return torch.tanh(x), (self.norm(y) > 0)",
)
DEPENDENT = (
    "return torch.softmax(self.inner(x) + y, 0)",
    "return x - x.mean(0)",
    "return x * (2.0 if x.abs().max() > 3.0 else 1.0)",  # which few rows alone decide otherwise
    "return x.view(32, 4, 8) * 2",  # written for one length
    "return x.flip(0)",
    "return (x * y).sum()",
)


def load(folder: Path, body: str, **options: object) -> Problem:
    path = folder / "net.py"
    path.write_text(FILE.replace("BODY", body))
    return problems.load(f"{path}:Net", **options)  # type: ignore[arg-type]


def both(problem: Problem, case: Case, monkeypatch: pytest.MonkeyPatch):
    """The answer as a whole and in pieces, and of how many rows the oracle was asked."""
    whole = Reference(problem, None, 0).ask(case)[1]
    reference = Reference(problem, None, 0, pieces=SMALL)
    lengths: list[int] = []
    exact = reference._exact

    def count(leaves: list[torch.Tensor], wobble: float, seed: int | None = None):
        lengths.append(len(leaves[0]))
        return exact(leaves, wobble, seed)

    monkeypatch.setattr(reference, "_exact", count)
    pieces = reference.ask(case)[1]
    assert whole is not None and pieces is not None
    return whole, pieces, lengths, reference


@pytest.mark.parametrize("family", ["nominal", "heavy_tailed", "nan_probe"])
@pytest.mark.parametrize("body", INDEPENDENT)
def test_pieces_are_what_the_whole_is(body: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load(tmp_path, body)
    whole, pieces, lengths, reference = both(problem, Case(family, 3), monkeypatch)
    assert max(lengths) < 32 and not reference.note
    for one, two in zip(whole.wanted, pieces.wanted, strict=True):
        torch.testing.assert_close(two.value, one.value, rtol=1e-12, atol=1e-14, equal_nan=True)
        ratio = (two.allowed / one.allowed.clamp_min(1e-30))[one.allowed > 1e-30]
        assert not ratio.numel() or (float(ratio.min()) > 0.2 and float(ratio.max()) < 5.0)


@pytest.mark.parametrize("body", DEPENDENT)
def test_where_rows_depend_on_each_other_the_oracle_runs_as_a_whole(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = load(tmp_path, body)
    whole, pieces, lengths, _ = both(problem, Case("nominal", 3), monkeypatch)
    assert lengths[-2:] == [32, 32]
    assert torch.equal(whole.wanted[0].value, pieces.wanted[0].value)


def test_few_pieces_are_not_worth_showing_that_they_may_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SMALL", Pieces(whole_bytes=64 * 64, piece_bytes=8192))
    assert both(load(tmp_path, INDEPENDENT[0]), Case("nominal", 3), monkeypatch)[2] == [32, 32]


def test_a_batch_norm_in_training_is_no_matter_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load(tmp_path, "return self.norm(x) + y", training=True)
    assert both(problem, Case("nominal", 3), monkeypatch)[2][-2:] == [32, 32]


def test_a_sampled_oracle_says_so_and_still_sees_a_wrong_row(tmp_path: Path) -> None:
    problem = load(tmp_path, INDEPENDENT[0])
    hurried = Pieces(whole_bytes=64 * 64, piece_bytes=1024, exact_s=0.0, fewest=2)
    reference = Reference(problem, None, 0, pieces=hurried)
    leaves, answer = reference.ask(Case("nominal", 3))
    assert answer is not None and "rows, drawn at random; the others are held" in reference.note
    right = torch.softmax(
        (leaves[0] @ reference.weights()["inner.weight"].t() + reference.weights()["inner.bias"]) + leaves[1], -1
    )
    assert not examine(right, answer.wanted[0]).wrong
    for row in range(32):
        wrong = right.clone()
        wrong[row, 3] *= 1.001
        assert examine(wrong, answer.wanted[0]).wrong == 1


def test_large_results_are_compared_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    value = torch.randn(7, 11, 13, dtype=torch.float64)
    wanted = Allowance(value, value.float(), torch.full(value.shape, 1e-3))
    got = value.float()
    got[5, 2, 1] += 2e-3
    got[6, 10, 12] += 9e-3
    got[0, 0, 1] = 0.0009 + got[0, 0, 1]
    one = examine(got, wanted)
    lost = got.clone()
    lost[1, 3, 5] = float("nan")
    two = examine(lost, wanted)
    monkeypatch.setattr(examination, "_SLICE", 100)
    assert examine(got, wanted) == one and one.wrong == 2 and one.index == (6, 10, 12)
    assert repr(examine(lost, wanted)) == repr(two) and two.strange == 1 and two.index == (1, 3, 5)


@pytest.mark.parametrize("shape", [(6, 4, 100), (40, 8), (3, 5), (2, 70, 70)])
@pytest.mark.parametrize("off", [0.0, 1e-3])
def test_only_rows_in_doubt_are_looked_at_and_say_what_all_of_them_say(shape: tuple[int, ...], off: float) -> None:
    torch.manual_seed(0)
    value = torch.randn(shape, dtype=torch.float64)
    value.view(-1)[1::7] *= 1e-9
    shaken = value + 2.0**-24 * torch.randn(shape, dtype=torch.float64)
    mine = (value + 2.0**-24 * torch.randn(shape, dtype=torch.float64)).float()
    mine.view(-1)[-1] += off
    whole = examine(mine, allowance(value, shaken, value.float(), 9)).wrong
    assert _near(mine, value, shaken, allowance, 9) == (whole == 0) == (off == 0.0)
