"""What the reference is asked, and what of it is kept."""

from pathlib import Path

import pytest

from kernelwright import problems
from kernelwright.judge.reference import Reference
from kernelwright.records import Case, Problem

FILE = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        BODY


def get_inputs():
    return [torch.randn(2, 3, 4, 2)]
"""


def load(folder: Path, body: str) -> Problem:
    path = folder / "net.py"
    path.write_text(FILE.replace("BODY", body))
    return problems.load(f"{path}:Net")


def counted(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The oracle's runs from now on, by how much they are moved."""
    runs: list[float] = []
    exact = reference._exact

    def count(leaves: list, wobble: float, seed: int | None = None):
        runs.append(wobble)
        return exact(leaves, wobble, seed)

    monkeypatch.setattr(reference, "_exact", count)
    return runs


@pytest.mark.parametrize("layout", ["strided", "offset", "channels_last"])
def test_a_layout_has_the_answer_of_plain_memory(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = Reference(load(tmp_path, "return torch.softmax(x, -1)"), None, 1 << 20)
    plain = reference.ask(Case("nominal", 3))
    runs = counted(reference, monkeypatch)
    leaves, answer = reference.ask(Case("nominal", 3, layout=layout))
    assert not runs and answer is plain[1]
    assert leaves[0].equal(plain[0][0]) and leaves[0].data_ptr() != plain[0][0].data_ptr()


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        ("return x * (2.0 if x.is_contiguous() else 3.0)", True),
        ("return x.view(48) * 2.0", False),
        ("return x * 2.0 if x.is_contiguous() else exit()", False),
    ],
)
def test_a_layout_that_the_reference_minds_has_an_answer_of_its_own(body: str, answers: bool, tmp_path: Path) -> None:
    reference = Reference(load(tmp_path, body), None, 1 << 20)
    leaves, answer = reference.ask(Case("nominal", 3, layout="channels_last"))
    assert (answer is not None) is answers
    if answer is not None:
        assert answer.wanted[0].value.equal(leaves[0].double() * 3.0)


def test_where_there_is_no_room_what_was_kept_first_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = load(tmp_path, "return torch.softmax(x, -1)")
    reference = Reference(problem, None, 2000)  # one case and its answer take a little less than a kilobyte
    cases = [Case("nominal", seed) for seed in range(4)]
    for case in cases:
        reference.ask(case)
    runs = counted(reference, monkeypatch)
    for case in cases:
        reference.ask(case)
    assert len(runs) == 4  # two of the four, moved and unmoved
