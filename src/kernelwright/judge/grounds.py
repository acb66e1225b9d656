"""What a device changes about judging: where shared memory lies, when work is done, what a child must reach.

A ground is a value without state: it goes to the child with the first order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kernelwright.judge.arena import Arena, Block, ChildArena, Place

if TYPE_CHECKING:
    from torch import Tensor

    from kernelwright.judge.fresh import Batch
    from kernelwright.records import Signature


class JudgeArena(Protocol):
    """The judge's side of shared memory. See arena.Arena."""

    size: int
    file: int

    def close(self) -> None: ...
    def publish(self) -> None: ...
    def seize(self, places: Iterable[Place]) -> None: ...
    def put(self, place: Place, tensor: "Tensor") -> None: ...
    def same(self, place: Place, tensor: "Tensor") -> bool: ...
    def rows(self, block: Block, leaf: int, count: int) -> Any: ...
    def poison(self, block: Block, count: int) -> None: ...
    def guarded(self, block: Block, count: int) -> bool: ...
    def unwritten(self, block: Block, count: int) -> list[tuple[int, int]]: ...
    def take(self, place: Place) -> "Tensor": ...


class TheirArena(Protocol):
    """The child's side."""

    def tensor(self, place: Place) -> "Tensor": ...


class Inputs(Protocol):
    """Fresh inputs for so many calls."""

    def __call__(self, count: int) -> "Batch": ...


@dataclass(frozen=True)
class Timed:
    """How timing goes on a ground."""

    window_bytes: int = 256 << 20
    """What inputs and results of a window may occupy."""
    least_window_us: float = 0.0
    """Shorter windows are drowned by what a window costs."""
    copied_us: float = 200.0
    """The calls whose results are copied take about so long together, ..."""
    copied_bytes: int = 1 << 19
    """... and have no more results than this; one call at the least."""
    uneven_us: float = 0.0
    """So much longer the same copying may take in one process than in another."""


class Ground(Protocol):
    """See the top of this file."""

    @property
    def device(self) -> str:
        """torch's word for it: "cpu", "cuda"."""
        ...

    @property
    def counts_memory(self) -> bool:
        """Whether a limit on private memory leaves a child able to work."""
        ...

    @property
    def executing(self) -> tuple[str, ...]:
        """Languages whose compilers a child must start itself."""
        ...

    # The judge's side

    def arena(self, size: int) -> JudgeArena:
        """Shared memory of at least so many bytes."""
        ...

    def inputs(self, base: "Sequence[Tensor]", signature: "Signature") -> Inputs:
        """What makes inputs for timed calls."""
        ...

    def timed(self) -> Timed:
        """How timing goes here."""
        ...

    def readable(self) -> tuple[str, ...]:
        """Files and folders a child reads beyond those of every child."""
        ...

    def devices(self) -> tuple[str, ...]:
        """Device files a child opens."""
        ...

    def variables(self) -> tuple[tuple[str, str], ...]:
        """What of the environment a child gets beyond what every child has."""
        ...

    # The child's side

    def enter(self) -> None:
        """Readies the device, in a child that is closed already and has run nothing of a candidate."""
        ...

    def theirs(self, file: int, size: int) -> TheirArena:
        """Maps what `arena` made."""
        ...

    def touch(self) -> None:
        """Starts next to nothing on the device: what a window costs that calls nothing."""
        ...

    def finish(self) -> None:
        """Returns when all that this process has started is done."""
        ...

    def firm(self, result: Any) -> "list[Tensor]":
        """Copies of the tensors of a result as whoever uses it next would find them, made without waiting for more
        than he would; empty where a result that has returned is there."""
        ...


@dataclass(frozen=True)
class CpuGround:
    """The processor: a call that has returned is done, a process that is stopped computes nothing."""

    device: str = "cpu"
    counts_memory: bool = True
    executing: tuple[str, ...] = ()

    def arena(self, size: int) -> JudgeArena:
        return Arena(size)

    def inputs(self, base: "Sequence[Tensor]", signature: "Signature") -> Inputs:
        from kernelwright.judge.fresh import Fresh

        return Fresh(base, signature)

    def timed(self) -> Timed:
        return Timed()

    def readable(self) -> tuple[str, ...]:
        return ()

    def devices(self) -> tuple[str, ...]:
        return ()

    def variables(self) -> tuple[tuple[str, str], ...]:
        return ()

    def enter(self) -> None:
        pass

    def theirs(self, file: int, size: int) -> TheirArena:
        return ChildArena(file)

    def touch(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def firm(self, result: Any) -> "list[Tensor]":
        return []


def ground(device: str) -> Ground:
    """The ground of a device that problems are judged on; what has none of its own is judged on the processor."""
    from kernelwright.judge.cuda_ground import CudaGround

    return CudaGround() if device == "cuda" else CpuGround()
