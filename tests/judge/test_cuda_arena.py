"""The arena and the inputs that a GPU has, on memory of the processor: all but the driver's own calls."""

import mmap
import os
from dataclasses import dataclass

import pytest
import torch

from kernelwright import problems
from kernelwright.judge import Gate, Judge, Settings
from kernelwright.judge import judge as judging
from kernelwright.judge.arena import Block, ChildArena, Layout
from kernelwright.judge.device_arena import DeviceArena, memory_of, moved
from kernelwright.judge.device_inputs import DeviceFresh
from kernelwright.judge.fresh import Given
from kernelwright.judge.grounds import CpuGround, Timed, ground
from kernelwright.judge.session import SessionSettings
from kernelwright.records import Candidate, Signature, SourceFile, Status, TensorSpec, flatten


class HostMemory:
    """Two mappings of one file, as two processes have them."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self.file = os.memfd_create("test")
        os.ftruncate(self.file, self.size)
        self.bytes = torch.frombuffer(mmap.mmap(self.file, self.size), dtype=torch.uint8)

    def close(self) -> None:
        os.close(self.file)


@dataclass(frozen=True)
class StagedGround(CpuGround):
    """A judge that works as for a GPU, and children that need none."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return CpuGround, ()

    def arena(self, size: int) -> DeviceArena:
        return DeviceArena(HostMemory(size))

    def inputs(self, base: list[torch.Tensor], signature: Signature) -> DeviceFresh:
        return DeviceFresh(base, signature)

    def timed(self) -> Timed:
        return Timed(8 << 10)  # eight calls


def arena_of(layout: Layout) -> tuple[DeviceArena, ChildArena]:
    arena = DeviceArena(HostMemory(layout.size))
    return arena, ChildArena(os.dup(arena.file))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.complex128, torch.bool], ids=str)
def test_what_was_put_is_there_once_it_is_published(dtype: torch.dtype) -> None:
    layout = Layout()
    one = torch.randint(0, 2, (5, 7)).to(dtype)
    strided = one.t()[1:, ::2]
    places = [layout.like(one), layout.like(strided), layout.like(torch.empty(3, 0, dtype=dtype))]
    arena, child = arena_of(layout)
    arena.put(places[0], one)
    arena.put(places[1], strided)
    before = child.tensor(places[0]).clone()
    arena.publish()
    assert not before.any() and torch.equal(child.tensor(places[0]), one)
    there = child.tensor(places[1])
    assert torch.equal(there, strided) and there.stride() == strided.stride()
    assert arena.same(places[0], one) and arena.same(places[1], strided) and arena.same(places[2], one[:0])
    there[0, 0] = 1 if not there[0, 0] else 0
    assert arena.same(places[0], one) and not arena.same(places[1], strided)
    arena.close()


def slots_of(*sizes: int, count: int = 1, dtype: str = "float32") -> tuple[Block, DeviceArena, ChildArena]:
    layout = Layout()
    block = layout.block(lambda layout: tuple(layout.contiguous(dtype, (size,)) for size in sizes), count)
    return (block, *arena_of(layout))


@pytest.mark.parametrize("size", [2, 3, 1000, 20000, 70001])
def test_what_is_written_after_the_clock_is_written_too_late(size: int) -> None:
    block, arena, child = slots_of(size, size, count=2)
    arena.poison(block, 2)
    arena.publish()
    places = [place for group in range(2) for place in block.group(group)]
    child.tensor(places[1]).fill_(1)
    arena.seize(places)
    child.tensor(places[0]).fill_(2)
    child.tensor(places[1]).fill_(3)
    assert arena.unwritten(block, 2) == [(0, 0), (1, 0), (1, 1)]
    assert arena.guarded(block, 2)
    assert torch.equal(arena.take(places[1]), torch.ones(size))
    arena.close()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("size", [99, 100])
def test_writing_beyond_a_place_is_seen(where: str, size: int) -> None:
    block, arena, child = slots_of(size, size, size)
    arena.poison(block, 1)
    arena.publish()
    place = block.first[1]
    at = place.offset - 4 if where == "before" else place.offset + place.span_bytes
    torch.frombuffer(child._map, dtype=torch.float32, count=1, offset=at).zero_()
    arena.seize(block.first)
    assert not arena.guarded(block, 1)
    arena.close()


def test_a_tensor_keeps_its_strides_and_gaps_when_it_moves() -> None:
    whole = torch.arange(60.0).reshape(6, 10)
    part = whole[1:5, 2:9:3]
    there = moved(part, "meta")
    assert (there.shape, there.stride(), there.storage_offset()) == (part.shape, part.stride(), part.storage_offset())
    assert torch.equal(moved(part, "cpu"), part)
    assert memory_of(part).numel() == 4 * (3 * 10 + 2 * 3 + 1)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
@pytest.mark.parametrize("low", [None, 0.0])
def test_inputs_are_made_the_same_twice_and_differ_between_calls(dtype: torch.dtype, low: float | None) -> None:
    base = (torch.rand(40, 6) * 50 + 1).to(dtype)
    if dtype is torch.bool:
        base = torch.arange(240).reshape(40, 6) < 100
    strided = base.t()[:, ::2]
    name = str(dtype).removeprefix("torch.")
    specs = (
        TensorSpec("x", name, (40, 6), low=low),
        TensorSpec("y", name, tuple(strided.shape), low=low),
        TensorSpec("z", name, (40, 6), alias_of=0),
    )
    template = flatten({"args": [torch.zeros(1)] * 3, "kwargs": {}}, torch.is_tensor)[1]
    made = DeviceFresh([base, strided, base], Signature(specs, template))(3)
    layout = Layout()
    block = layout.block(lambda layout: (layout.like(base), layout.like(strided)), 3)
    arena, child = arena_of(layout)
    for leaf in range(2):
        made.write(leaf, arena.rows(block, leaf, 3))
    arena.publish()
    for call in range(3):
        leaves = made.leaves(call)
        for place, leaf in zip(block.group(call), leaves[:2], strict=True):
            assert torch.equal(child.tensor(place), leaf) and arena.same(place, leaf)
        assert leaves[2] is leaves[0]
        assert not torch.equal(leaves[0], base)
        if dtype.is_floating_point and low is not None:
            assert bool((leaves[0] >= low).all())
        if not dtype.is_floating_point:
            assert torch.equal(leaves[0].sort(0).values.sum(), base.sum())
    assert len({made.leaves(call)[0].double().sum().item() for call in range(3)}) > 1 or not dtype.is_floating_point
    arena.close()


def test_a_function_of_ratios_alone_gives_other_results_for_other_calls() -> None:
    base = torch.randn(4, 64)
    template = flatten({"args": [torch.zeros(1)], "kwargs": {}}, torch.is_tensor)[1]
    made = DeviceFresh([base], Signature((TensorSpec("x", "float32", (4, 64)),), template))(100)
    calls = int(made.draws[0].argmin()), int(made.draws[0].argmax())
    one, two = (torch.nn.functional.layer_norm(made.leaves(call)[0], (64,)) for call in calls)
    assert float((one - two).abs().max()) > 1e-5


def test_given_inputs_reach_a_device() -> None:
    one = torch.arange(12.0).reshape(3, 4).t()
    layout = Layout()
    block = layout.block(lambda layout: (layout.like(one),), 2)
    arena, child = arena_of(layout)
    Given([[one], [one + 1]]).write(0, arena.rows(block, 0, 2))
    arena.publish()
    assert torch.equal(child.tensor(block.group(0)[0]), one) and torch.equal(child.tensor(block.group(1)[0]), one + 1)
    arena.close()


PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        return torch.softmax(self.linear(x), -1)

def get_inputs():
    return [torch.randn(8, 16)]

def get_init_inputs():
    return []
"""
HEAD = "import torch\nfrom reference import Model\nclass ModelNew(Model):\n    def forward(self, x):\n"
BODIES = {
    "honest": ("y = self.linear(x)\n        return (y - y.amax(-1, keepdim=True)).softmax(-1)", Status.PASSED),
    "unwritten": ("return torch.empty(8, 16)", None),
    "wrong": ("return torch.softmax(self.linear(x), -1) * 1.01", Status.WRONG_VALUES),
    "in the input": ("return x.copy_(torch.softmax(self.linear(x), -1))", Status.CHEATED),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_judge_with_a_devices_arena_decides_as_one_without(
    name: str, tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "ground", lambda device: StagedGround())
    path = tmp_path / "problem.py"  # type: ignore[operator]
    path.write_text(PROBLEM)
    body, wanted = BODIES[name]
    sources = (SourceFile("model.py", HEAD + f"        {body}\n"), SourceFile("reference.py", PROBLEM))
    settings = Settings(rounds=2, survey=False, session=SessionSettings(threads=1))
    with Judge(problems.load(f"{path}:Model"), "cpu", settings=settings, gate=Gate.private()) as judge:
        verdict = judge.submit(Candidate("test", "torch@cpu", sources))
    if wanted is None:
        assert verdict.status is not Status.PASSED
    else:
        assert verdict.status is wanted, verdict.reason + verdict.log
    assert (verdict.timing is not None) == (verdict.status is Status.PASSED)


def test_the_ground_follows_the_device() -> None:
    assert (ground("cpu").device, ground("null").device, ground("cuda").device) == ("cpu", "cpu", "cuda")
    assert "triton" in ground("cuda").executing and not ground("cpu").executing
