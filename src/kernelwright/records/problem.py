"""What is to be made fast: a reference as text, the tensors it takes, and how exact its results must be."""

import re
from dataclasses import dataclass, field
from functools import cached_property

from kernelwright.records.digest import digest


@dataclass(frozen=True)
class Range:
    """A dimension that may take any size from `low` to `high`, both included; `example` is the size timed."""

    low: int
    high: int
    example: int


@dataclass(frozen=True)
class TensorSpec:
    """One tensor that crosses the border of a problem."""

    name: str
    dtype: str
    """As torch names it without the prefix: "float32", "bfloat16", "int64", "bool"."""
    shape: tuple[int | Range, ...]
    stride: tuple[int, ...] | None = None
    """In elements; None means contiguous."""
    alias_of: int | None = None
    """The index of an earlier tensor of the signature that is the very same tensor."""
    low: float | None = None
    high: float | None = None
    """Integer tensors: smallest and largest value allowed, both included. Floating tensors: the interval that
    the user's own inputs are drawn from, where it is known; None means no bound is known."""

    @property
    def example_shape(self) -> tuple[int, ...]:
        """The shape that is timed."""
        return tuple(size.example if isinstance(size, Range) else size for size in self.shape)

    @property
    def dynamic(self) -> bool:
        """Whether any dimension is a range."""
        return any(isinstance(size, Range) for size in self.shape)


@dataclass(frozen=True)
class Signature:
    """The tensors of a call, in the order of the leaves of its arguments."""

    tensors: tuple[TensorSpec, ...]
    arguments: str
    """The template of {"args": [...], "kwargs": {...}} as `records.flatten` gives it; `unflatten` rebuilds the call."""
    device: str = "cpu"
    grad: bool = False
    """Whether the call is made with gradients enabled."""


@dataclass(frozen=True)
class Numerics:
    """How the user runs the reference, which decides what error is granted."""

    training: bool = False
    tf32_conv: bool = False
    tf32_matmul: bool = False
    autocast: str | None = None
    """dtype of an autocast region around the call, as "bfloat16"; None for none."""
    stochastic: bool = False
    """Whether the reference draws random numbers itself (dropout while training)."""


@dataclass(frozen=True)
class RegionInput:
    """What a canonical graph's input stands for in the module the region was taken from."""

    role: str
    """"argument", "parameter", "buffer" or "constant"."""
    name: str
    """The argument's leaf index as text, or the dotted name in the state_dict or of the constant."""


@dataclass(frozen=True)
class Region:
    """The identity of a computation: its canonical graph without names or weights.

    Two modules, or a module and the graph dynamo hands to a backend, that compute the same thing have equal digests.
    """

    text: str
    """The canonical graph specialised to the example's shapes."""
    dynamic_text: str | None
    """The canonical graph with symbols d0, d1, ... for the sizes of a dynamic contract; None for a fixed one."""
    inputs: tuple[RegionInput, ...]
    """In canonical order, which is that of first use."""

    @cached_property
    def digest(self) -> str:
        return digest("region", self.text)

    @cached_property
    def operators(self) -> int:
        """Calls in the graph."""
        return len(re.findall(r"^n\d+ = ", self.text, re.MULTILINE))

    @cached_property
    def dynamic_digest(self) -> str | None:
        return None if self.dynamic_text is None else digest("region", self.dynamic_text)


@dataclass(frozen=True)
class Constant:
    """A size constant of a problem's file that was replaced to fit the machine."""

    name: str
    original: int
    used: int


@dataclass(frozen=True)
class Problem:
    """A reference and its contract.

    `source` is Python text in the KernelBench dialect: `class Model(nn.Module)`, `get_init_inputs()` and
    `get_inputs()`. It is the user's own text where there is one, else a module printed from a captured graph.
    """

    name: str
    source: str
    signature: Signature
    numerics: Numerics = Numerics()
    region: Region | None = None
    """None for an opaque problem: one whose graph cannot be captured."""
    opaque: str = ""
    """Why the graph cannot be captured; empty where it can."""
    readable: str = ""
    """What a writer is shown where `source` was printed from a graph: the user's own text."""
    constants: tuple[Constant, ...] = ()
    weights: str = ""
    """The blob (sha256) with the user's weights; empty: those the constructor makes under seed 0."""
    gradients: tuple[str, ...] = ()
    """What the last results are gradients of, where forward and backward are one problem: inputs, then parameters."""
    origin: str = ""
    """The reference as the user gave it: "examples/a.py:Net", "kernelbench:level2/40", "module:BertModel"."""
    import_paths: tuple[str, ...] = field(default=(), compare=False)
    """Folders the source needs on sys.path. They belong to a machine and are no part of the identity."""

    @cached_property
    def digest(self) -> str:
        """Names source, contract and numerics; neither weights nor the place the text was found."""
        return digest("problem", self.source, self.signature, self.numerics)

    @property
    def dynamic(self) -> bool:
        """Whether the contract leaves sizes open."""
        return any(tensor.dynamic for tensor in self.signature.tensors)


@dataclass(frozen=True)
class Case:
    """One set of inputs: a family of values, a seed, and the sizes chosen for ranges."""

    family: str = "nominal"
    seed: int = 0
    sizes: tuple[int, ...] = ()
    """Sizes for the ranges of the signature, in order of appearance; empty: the examples."""
    hidden: bool = False
    layout: str = "contiguous"
    """"contiguous", "strided", "offset" or "channels_last"."""
    weights: str = "original"
    """"original", "permuted" or "scaled": what is done to the module's weights before the call."""

    @cached_property
    def digest(self) -> str:
        return digest("case", self)
