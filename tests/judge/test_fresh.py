"""Inputs for timed calls: new in every element, of the user's kind, and the same wherever they are made."""

import os

import numpy
import pytest
import torch

from kernelwright.judge.arena import Arena, ChildArena, Layout
from kernelwright.judge.fresh import Fresh, Given, drawn
from kernelwright.records import Signature, TensorSpec

FORMS = {
    "contiguous": lambda base: base,
    "transposed": lambda base: base.t(),
    "gaps": lambda base: torch.cat([base, base])[::2, 1::2],
    "broadcast": lambda base: base[:1].expand(6, -1),
    "empty": lambda base: base[:0],
}
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.int8, torch.bool,
]  # fmt: skip


def made(leaf: torch.Tensor, low: float | None = None, high: float | None = None) -> Fresh:
    name = str(leaf.dtype).removeprefix("torch.")
    return Fresh([leaf], Signature((TensorSpec("x", name, tuple(leaf.shape), low=low, high=high),), ""))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_written_is_what_a_set_says(dtype: torch.dtype, form: str) -> None:
    leaf = FORMS[form]((torch.randn(6, 40) * 50).to(dtype))
    layout = Layout()
    block = layout.block(lambda layout: (layout.like(leaf),), 4)
    arena = Arena(layout.size)
    batch = made(leaf)(4)
    batch.write(0, arena.rows(block, 0, 4))
    child = ChildArena(os.dup(arena.file))
    for call in range(4):
        (tensor,) = batch.leaves(call)
        assert tensor.stride() == leaf.stride() and tensor.shape == leaf.shape
        (place,) = block.group(call)
        assert arena.same(place, tensor) and torch.equal(child.tensor(place), tensor)
    arena.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.complex64], ids=str)
def test_every_element_changes_a_little(dtype: torch.dtype) -> None:
    leaf = torch.randn(1000).to(dtype)
    batch = made(leaf)(300)
    sets = [batch.leaves(call)[0] for call in (0, 100, 299)]
    for one in sets:
        share = (one.to(torch.complex128) / leaf.to(torch.complex128)).real
        assert float(share.min()) > 0.86 and float(share.max()) < 1.01
    assert not torch.equal(sets[0], sets[1]) and not torch.equal(sets[1], sets[2])


@pytest.mark.parametrize(("length", "low"), [(200, None), (200, -9.0), (100_000, None), (100_000, -9.0)])
def test_no_set_is_made_of_others(length: int, low: float | None) -> None:
    """A linear function of such a set would be made of its values for the others."""
    leaf = torch.randn(length, dtype=torch.float64)
    batch = made(leaf, low=low, high=None if low is None else 9.0)(40)
    rank = torch.linalg.matrix_rank(torch.stack([batch.leaves(call)[0][-200:] for call in range(40)]), rtol=1e-4)
    assert int(rank) == 40


@pytest.mark.parametrize("count", [1, 2, 40, 3000])
def test_no_two_calls_of_a_batch_get_the_same_number(count: int) -> None:
    """Drawn freely, 3000 numbers of 65,536 nearly always hold a pair."""
    for _ in range(20):
        numbers = drawn(count)
        assert numbers.min() >= 0 and numbers.max() < 1
        assert len(numpy.unique((numbers * 65536).astype(int))) == count


def test_a_function_of_ratios_alone_gives_other_results_for_other_calls() -> None:
    batch = made(torch.randn(4, 64))(100)
    calls = int(batch.draws[0].argmin()), int(batch.draws[0].argmax())
    one, two = (torch.nn.functional.layer_norm(batch.leaves(call)[0], (64,)) for call in calls)
    assert float((one - two).abs().max()) > 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_bounds_are_kept(dtype: torch.dtype) -> None:
    leaf = torch.rand(1000).add(3).to(dtype)
    batch = made(leaf, low=3.0, high=4.0)(50)
    for call in range(50):
        (tensor,) = batch.leaves(call)
        assert float(tensor.min()) >= 3 and bool((tensor <= leaf).all()) and tensor.dtype is dtype


def test_whole_numbers_are_the_same_ones_elsewhere() -> None:
    leaf = torch.stack([torch.arange(50), torch.full((50,), -(10**12))], 1)[:, 0]  # what lies in gaps is no index
    batch = made(leaf)(100)
    seen = {tuple(batch.leaves(call)[0].tolist()) for call in range(100)}
    assert len(seen) > 20 and all(sorted(values) == list(range(50)) for values in seen)
    assert tuple(range(50)) not in seen


def test_one_tensor_given_twice_stays_one() -> None:
    leaf = torch.randn(4)
    specs = (TensorSpec("x", "float32", (4,)), TensorSpec("y", "float32", (4,), alias_of=0))
    one, two = Fresh([leaf, leaf], Signature(specs, ""))(3).leaves(2)
    assert one is two


def test_given_tensors_are_written_as_they_are() -> None:
    leaf = torch.randn(6, 8).t()
    rows = numpy.zeros((2, leaf.nbytes), numpy.uint8)
    Given([[leaf], [leaf * 2]]).write(0, rows)
    assert rows[1].tobytes() == (leaf * 2).t().numpy().tobytes()
