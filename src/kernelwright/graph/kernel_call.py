"""Nodes that call what we made: a kernel, or a module that serves a piece of the graph."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KernelCall:
    """The target of a `call_function` node that stands for a generated kernel.

    The node's arguments are what the kernel takes after its outputs, in the kernel's order: nodes (tensors or
    symbolic sizes), SymInts and Python numbers. Its `meta["val"]` is the output's fake tensor, or a tuple of them
    where the kernel has several; consumers of the latter take theirs by `operator.getitem`. print_module allocates
    the outputs with the shapes, strides and dtypes of that value and writes

        out = torch.empty((8, x.shape[1]), dtype=torch.float32)
        self.lib.softmax(out, x, 8, x.shape[1])

    Tensors that a kernel takes have the strides they were captured with: the printed module makes the arguments of
    its call contiguous first, where they were captured contiguous.
    """

    name: str
    """The kernel's name in the compiled library."""
    prepared: bool = False
    """Whether it reads weights alone: then the printed module's prepare() calls it, once for every change of them."""

    @property
    def __name__(self) -> str:  # fx names nodes after their target
        return self.name

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"kernel {self.name} runs in printed modules only")


@dataclass(frozen=True)
class PieceCall:
    """The target of a node that stands for a piece served by another module: printed as a call of `expression`.

    Its arguments are the piece's; its `meta["val"]` is the result's fake tensor, or a tuple of them.
    """

    expression: str
    """What is called: "self.pieces[3]"."""

    @property
    def __name__(self) -> str:
        return "piece"

    def __call__(self, *args: Any) -> Any:
        raise NotImplementedError(f"{self.expression} runs in printed modules only")
