"""The floor counts the bytes that matter, at the bandwidth of the memory they fit."""

import pytest
import torch

from kernelwright.judge.physics import MARGIN, floor_us, needed_bytes
from kernelwright.records import Facts

FACTS = Facts("cpu", "test", "x86_64", threads=2, cache_bytes=(1000, 10000), bandwidth_gbs=10.0,
              cache_bandwidth_gbs=(100.0, 50.0))  # fmt: skip


@pytest.mark.parametrize(("size", "bandwidth"), [(1500, 100.0), (15000, 50.0), (10**6, 10.0)])
def test_floor_by_level(size, bandwidth):
    assert floor_us(size, FACTS) == pytest.approx(MARGIN * size / (bandwidth * 1e3))


def test_no_floor_where_nothing_is_known():
    assert floor_us(10**9, Facts("cpu", "test", "x86_64")) == 0.0


def test_what_no_result_depends_on_is_free():
    x, unused = torch.randn(64, 64), torch.randn(64, 64)
    whole = needed_bytes(lambda leaves: [leaves[0] + 0 * leaves[1]], [x, unused])
    half = needed_bytes(lambda leaves: [leaves[0][:32]], [x])
    assert whole == x.nbytes * 2
    assert half == x.nbytes // 2 * 2


def test_integers_are_only_permuted():
    table, places = torch.randn(10, 4), torch.arange(8)
    size = needed_bytes(lambda leaves: [leaves[0][leaves[1]]], [table, places])
    assert size > places.nbytes
