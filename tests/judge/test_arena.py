"""Shared memory with places, guards and poison."""

import itertools
import os

import pytest
import torch

from kernelwright.judge.arena import Arena, Block, ChildArena, Layout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.complex128, torch.bool], ids=str)
def test_both_sides_see_the_same(dtype: torch.dtype) -> None:
    layout = Layout()
    one = torch.randint(0, 2, (5, 7)).to(dtype)
    strided = one.t()[1:, ::2]
    places = [layout.like(one), layout.like(strided), layout.like(torch.empty(3, 0, dtype=dtype))]
    arena = Arena(layout.size)
    arena.put(places[0], one)
    arena.put(places[1], strided)
    child = ChildArena(os.dup(arena.file))
    assert torch.equal(child.tensor(places[0]), one)
    there = child.tensor(places[1])
    assert torch.equal(there, strided) and there.stride() == strided.stride()
    assert there.storage_offset() == strided.storage_offset()
    assert child.tensor(places[2]).shape == (3, 0)
    assert arena.same(places[0], one) and arena.same(places[1], strided)
    there[0, 0] = 1 if not there[0, 0] else 0
    assert arena.same(places[0], one) and not arena.same(places[1], strided)
    assert torch.equal(arena.take(places[0]), one)
    arena.close()


def _block(layout: Layout, size: int, count: int) -> Block:
    return layout.block(lambda layout: tuple(layout.contiguous("float32", (size,)) for _ in range(2)), count)


@pytest.mark.parametrize("size", [2, 3, 1000, 20000, 70001])
def test_what_is_not_written_is_seen(size: int) -> None:
    layout = Layout()
    block = _block(layout, size, 3)
    arena = Arena(layout.size)
    arena.poison(block, 3)
    child = ChildArena(os.dup(arena.file))
    assert arena.unwritten(block, 3) == [(group, leaf) for group in range(3) for leaf in range(2)]
    assert arena.guarded(block, 3)
    child.tensor(block.group(1)[1]).fill_(1)
    assert arena.unwritten(block, 3) == [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]
    assert arena.unwritten(block, 1) == [(0, 0), (0, 1)] and arena.guarded(block, 3)
    arena.poison(block, 2)
    whole = child.tensor(block.group(1)[1])
    whole[: size // 2 * 2 - 2] = 1  # all but the last aligned word
    assert (1, 1) in arena.unwritten(block, 3)
    arena.close()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("size", [100, 101])
@pytest.mark.parametrize("group", [0, 2])
def test_writing_beyond_a_place_is_seen(where: str, size: int, group: int) -> None:
    layout = Layout()
    block = _block(layout, size, 3)
    arena = Arena(layout.size)
    arena.poison(block, 3)
    child = ChildArena(os.dup(arena.file))
    place = block.group(group)[1]
    start = place.offset - 4 if where == "before" else place.offset + place.span_bytes
    neighbour = child.tensor(type(place)(start, 4, "float32", (1,), (1,)))
    neighbour.fill_(1)
    assert not arena.guarded(block, 3)
    assert arena.guarded(block, 2) == (group == 2)
    arena.close()


def test_places_are_aligned_and_apart() -> None:
    layout = Layout()
    places = [layout.contiguous("int8", (size,)) for size in (1, 63, 64, 65)]
    assert all(place.offset % 64 == 0 for place in places)
    for one, other in itertools.pairwise(places):
        assert other.offset - (one.offset + one.span_bytes) >= 256
    assert layout.size >= places[-1].offset + places[-1].span_bytes + 256


def test_a_far_offset_keeps_its_alignment() -> None:
    base = torch.zeros(100_000)
    for offset in (1, 4096, 4097, 90_003):
        place = Layout().like(base[offset : offset + 10])
        assert place.lead % 16 == offset % 16 and (place.lead > 0) and place.lead <= 4096 + 64
