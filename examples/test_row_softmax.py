"""Test your Metal kernel in Linux CI: copy this file beside your .metal file and run pytest. No Mac is needed.

    pip install PATH/TO/kernelwright pytest && pytest test_row_softmax.py

`.watched` runs the same call on a build that tells of data races, indexes out of bounds, threadgroup memory read before
it was written and diverging barriers; `.counters` says what the kernel moved and computed.
"""

from pathlib import Path

import pytest
import torch

import kernelwright.metal as metal
from kernelwright.metal.roofline import roofline

SOURCE = Path(__file__).with_name("row_softmax.metal")


@pytest.fixture(scope="module")
def lib() -> metal.Library:
    return metal.compile_shader(SOURCE.read_text(), name=str(SOURCE))


@pytest.mark.parametrize("columns", [1, 31, 33, 1000])
@pytest.mark.parametrize("group", [32, 256])
def test_right(lib: metal.Library, columns: int, group: int) -> None:
    x = torch.randn(4, columns)
    out = torch.full_like(x, float("nan"))
    lib.row_softmax(x, out, columns, threads=4 * group, group_size=group, arg_casts={2: "int32"})
    torch.testing.assert_close(out, x.softmax(-1))


def test_no_race_and_no_wrong_index(lib: metal.Library) -> None:
    x, out = torch.randn(4, 1000), torch.empty(4, 1000)
    report = lib.row_softmax.watched(x, out, 1000, threads=4 * 256, group_size=256, arg_casts={2: "int32"})
    assert not report.faults, report.faults[0].message


def test_reads_are_coalesced(lib: metal.Library) -> None:
    x, out = torch.randn(4, 1024), torch.empty(4, 1024)
    report = lib.row_softmax.watched(x, out, 1024, threads=4 * 256, group_size=256, arg_casts={2: "int32"})
    assert report.counters.of("buffer").coalescing > 0.9
    assert report.counters.of("group").conflict_cycles == 0
    print(roofline(report.counters, "M2 Max"))  # an estimate, with what it leans on; seen with pytest -s
