"""Convolutions as kernels: a hand-tuned template, since no schedule of a plain nest keeps its sums in registers."""

from dataclasses import dataclass
from math import prod

from kernelwright.loops.epilogue import AS_IS, Epilogue, print_epilogue
from kernelwright.loops.expressions import Size
from kernelwright.loops.filled import Filled
from kernelwright.loops.types import ScalarType

TILE = 8
"""Packed weights are given room for whole tiles of so many channels, whatever the machine's are."""
STRIP = 65536
"""Numbers of the inputs that a task copies (templates/convolution.hpp)."""
LEAST_COLUMNS = 16
MOST_TAPS, MOST_WINDOW, MOST_PLANES, MOST_PHASES = 32, 512, 4096, 8

_AXES = ("taps", "stride", "before", "dilation")


@dataclass(frozen=True)
class Window:
    """What a convolution sees through, as (depth, height, width); lines and planes have sizes of 1 in front."""

    taps: tuple[int, int, int]
    stride: tuple[int, int, int]
    before: tuple[int, int, int]
    """Padding in front of the input."""
    dilation: tuple[int, int, int]
    transposed: bool

    @property
    def fits(self) -> bool:
        """Whether the template's tables hold it."""
        return (
            max(self.taps) <= MOST_TAPS
            and prod(self.taps[1:]) <= MOST_WINDOW
            and (not self.transposed or (self.stride[2] <= MOST_PHASES and prod(self.stride[1:]) <= MOST_WINDOW))
        )

    def strip(self, inner: int) -> int:
        """Numbers of the narrowest tile's input, of so many channels."""
        size = inner * self.taps[0]
        for taps, stride, dilation, least in zip(
            self.taps[1:], self.stride[1:], self.dilation[1:], (1, LEAST_COLUMNS), strict=True
        ):
            places = 1 if self.transposed else min(taps, stride)
            size *= places * (least + (taps - 1) * dilation // stride + 1)
        return size


@dataclass(frozen=True)
class Convolution:
    """A convolution of float32 with what becomes of its sums.

    Its kernel takes out, x, the inputs that its epilogue reads, packed weights (`packed_convolution`), then the
    sizes that have names.
    """

    window: Window
    groups: int
    inner: int
    """Channels of a group of the input; `outer` those of the result."""
    outer: int
    sizes: tuple[Size, ...]
    """The batch, then depth, height and width of the input, then those of the result."""
    epilogue: Epilogue = AS_IS
    """Its places are the "channel" of the result and the "index" of its element."""
    note: str = ""
    name: str = ""

    template = "convolution"


def packed_convolution(window: Window, groups: int, inner: int, outer: int) -> Filled:
    """The kernel that packs the weights of such a convolution: it takes packed and weights, no sizes."""
    triples = [f"convolutions::Window{{{', '.join(map(str, getattr(window, axis)))}}}" for axis in _AXES]
    call = f"convolutions::pack<{', '.join([_flag(window.transposed), *triples])}>"
    one = (ScalarType.FLOAT32,)
    return Filled("convolution", call, one, one, (groups, inner, outer), "weights of a convolution, packed")


def packed_weights(window: Window, groups: int, inner: int, outer: int) -> int:
    """How many float32 they are."""
    return groups * -(-outer // TILE) * TILE * inner * prod(window.taps)


def print_convolution(convolution: Convolution) -> str:
    """The kernel as C++, to stand after `filled_template("convolution")`."""
    window, sizes = convolution.window, [str(size) for size in convolution.sizes]
    named = dict.fromkeys(size for size in convolution.sizes if isinstance(size, str))
    parameters = ["float* out", "const float* x", *convolution.epilogue.parameters]
    parameters += ["const float* packed", *(f"int64 {size}" for size in named)]
    numbers = [sizes[0], *map(str, (convolution.groups, convolution.inner, convolution.outer))]
    triples = [sizes[1:4], sizes[4:7], *(map(str, getattr(window, axis)) for axis in _AXES)]
    numbers += [f"{{{', '.join(triple)}}}" for triple in triples]
    note = "".join(f"// {line}\n" for line in convolution.note.splitlines())
    return (
        f"{note}kernel void {convolution.name}({', '.join(parameters)}) {{\n"
        f"    const convolutions::Sizes sizes = {{{', '.join(numbers)}}};\n"
        f"    convolutions::run<{_flag(window.transposed)}, {window.stride[2] if window.transposed else 1}>(\n"
        f"        out, x, packed, sizes, {print_epilogue(convolution.epilogue, ('channel', 'index'))});\n}}\n"
    )


def _flag(value: bool) -> str:
    return "true" if value else "false"
